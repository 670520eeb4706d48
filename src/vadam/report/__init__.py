"""Static pages that need no network and no server: the HTML they are made of, and the page about a fitted model."""
