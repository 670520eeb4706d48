"""Static HTML pages that need no network and no server, and the page about a fitted model."""
