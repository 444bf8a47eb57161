"""The paper's evaluation again: six figures from one shared grid, each as data, a drawing and its claims."""

from flcontrib_core.laboratory.reproduction.catalogue import FIGURES, price_of_figures, reproduce
from flcontrib_core.laboratory.reproduction.figure import Figure, Row
from flcontrib_core.laboratory.reproduction.files import write_claims_page, write_figure, write_images
from flcontrib_core.laboratory.reproduction.grid import CUT_OFF_SECONDS, Instance, Stage

__all__ = [
    "CUT_OFF_SECONDS",
    "FIGURES",
    "Figure",
    "Instance",
    "Row",
    "Stage",
    "price_of_figures",
    "reproduce",
    "write_claims_page",
    "write_figure",
    "write_images",
]
