"""The tape to look at: listings, pictures, the player, and explanations."""

from .explain import explain as explain
from .listing import Summary as Summary
from .listing import Tape as Tape
from .listing import live_tape as live_tape
from .listing import tape_of as tape_of
from .listing import tensor_html as tensor_html
