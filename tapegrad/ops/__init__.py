"""The operations, by family. Public functions carry PyTorch's names and arguments."""

from . import activation as activation
from . import arithmetic as arithmetic
from . import convert as convert
from . import dims as dims
from . import einsum as einsum
from . import index as index
from . import interop as interop
from . import maths as maths
from . import matmul as matmul
from . import nearest as nearest
from . import products as products
from . import reduce as reduce
from . import shape as shape
