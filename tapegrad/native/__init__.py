"""The native tape: recorded steps that run without Python."""

from .compiled import compile as compile
from .loops import scan as scan
from .loops import while_loop as while_loop
