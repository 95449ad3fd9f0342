from .evaluate import evaluate as evaluate
from .evaluate import load_encoder as load_encoder
from .examples import make_features as make_features
from .examples import observe as observe
from .examples import squared_errors as squared_errors
from .predictors import Predictor as Predictor
from .scores import auroc as auroc
from .table import EVALUATION as EVALUATION
