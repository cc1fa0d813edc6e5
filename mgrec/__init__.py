"""mgrec: recurrences that are too long, too many or too slow for one loop."""

from . import signal, tuning
from .phases.coefficient import Coefficient
from .phases.laws import check_laws
from .phases.transfer_map import TransferMap
from .recurrences import maps
from .recurrences.custom import scan
from .recurrences.linear import linear_recurrence
from .recurrences.plan import plan
from .recurrences.rational import rational_recurrence

__all__ = [
    "Coefficient",
    "TransferMap",
    "check_laws",
    "linear_recurrence",
    "maps",
    "plan",
    "rational_recurrence",
    "scan",
    "signal",
    "tuning",
]
__version__ = "0.1.0"
