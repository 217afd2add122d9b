"""The operations, by family. Public functions carry PyTorch's names and arguments."""

from . import activation as activation
from . import arithmetic as arithmetic
from . import conv as conv
from . import classes as classes
from . import convert as convert
from . import dims as dims
from . import einsum as einsum
from . import draws as draws
from . import dropout as dropout
from . import generator as generator
from . import index as index
from . import interop as interop
from . import maths as maths
from . import matmul as matmul
from . import nearest as nearest
from . import products as products
from . import random as random
from . import reduce as reduce
from . import shape as shape
from . import softmax as softmax
