"""Padding."""

from __future__ import annotations

from ..layers.padding import CircularPad1d as CircularPad1d
from ..layers.padding import CircularPad2d as CircularPad2d
from ..layers.padding import CircularPad3d as CircularPad3d
from ..layers.padding import ConstantPad1d as ConstantPad1d
from ..layers.padding import ConstantPad2d as ConstantPad2d
from ..layers.padding import ConstantPad3d as ConstantPad3d
from ..layers.padding import ReflectionPad1d as ReflectionPad1d
from ..layers.padding import ReflectionPad2d as ReflectionPad2d
from ..layers.padding import ReflectionPad3d as ReflectionPad3d
from ..layers.padding import ReplicationPad1d as ReplicationPad1d
from ..layers.padding import ReplicationPad2d as ReplicationPad2d
from ..layers.padding import ReplicationPad3d as ReplicationPad3d
from ..layers.padding import ZeroPad1d as ZeroPad1d
from ..layers.padding import ZeroPad2d as ZeroPad2d
from ..layers.padding import ZeroPad3d as ZeroPad3d
