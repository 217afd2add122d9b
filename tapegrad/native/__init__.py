"""The native tape: recorded steps that run without Python."""

from .compiled import compile as compile
