"""Frozen dataclasses that all other layers speak in. Standard library only."""
