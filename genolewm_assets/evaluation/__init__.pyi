from .examples import squared_errors as squared_errors
from .holdout_scores import TUPLES as TUPLES
from .holdout_scores import evaluate as evaluate
from .holdout_scores import load_encoder as load_encoder
from .predictors import Predictor as Predictor
from .scores import auroc as auroc
from .table import EVALUATION as EVALUATION
