"""Measurements of speed; each module is a command."""
