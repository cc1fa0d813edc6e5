"""mgrec: recurrences that are too long, too many or too slow for one loop."""

from .phases.coefficient import Coefficient
from .phases.transfer_map import TransferMap
from .recurrences import maps
from .recurrences.linear import linear_recurrence

__all__ = ["Coefficient", "TransferMap", "linear_recurrence", "maps"]
__version__ = "0.1.0"
