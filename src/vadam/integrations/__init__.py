"""Integrations with trainers and reinforcement-learning libraries; each module imports its own dependency."""
