"""Functions of networks: what layers compute, without their state."""

from __future__ import annotations

from ... import faces as _faces
from ...ops.activation import celu as celu
from ...ops.activation import celu_ as celu_
from ...ops.activation import elu as elu
from ...ops.activation import elu_ as elu_
from ...ops.activation import functional_relu as relu
from ...ops.activation import gelu as gelu
from ...ops.activation import glu as glu
from ...ops.activation import hardshrink as hardshrink
from ...ops.activation import hardsigmoid as hardsigmoid
from ...ops.activation import hardswish as hardswish
from ...ops.activation import hardtanh as hardtanh
from ...ops.activation import hardtanh_ as hardtanh_
from ...ops.activation import leaky_relu as leaky_relu
from ...ops.activation import leaky_relu_ as leaky_relu_
from ...ops.activation import logsigmoid as logsigmoid
from ...ops.activation import mish as mish
from ...ops.activation import prelu as prelu
from ...ops.activation import relu6 as relu6
from ...ops.activation import relu_ as relu_
from ...ops.activation import rrelu as rrelu
from ...ops.activation import rrelu_ as rrelu_
from ...ops.activation import selu as selu
from ...ops.activation import selu_ as selu_
from ...ops.activation import silu as silu
from ...ops.activation import softplus as softplus
from ...ops.activation import softshrink as softshrink
from ...ops.activation import softsign as softsign
from ...ops.activation import tanhshrink as tanhshrink
from ...ops.activation import threshold as threshold
from ...ops.activation import threshold_ as threshold_
from ...ops.adaptive import adaptive_avg_pool1d as adaptive_avg_pool1d
from ...ops.adaptive import adaptive_avg_pool2d as adaptive_avg_pool2d
from ...ops.adaptive import adaptive_avg_pool3d as adaptive_avg_pool3d
from ...ops.adaptive import adaptive_max_pool1d as adaptive_max_pool1d
from ...ops.adaptive import adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices
from ...ops.adaptive import adaptive_max_pool2d as adaptive_max_pool2d
from ...ops.adaptive import adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices
from ...ops.adaptive import adaptive_max_pool3d as adaptive_max_pool3d
from ...ops.adaptive import adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices
from ...ops.adaptive import lp_pool1d as lp_pool1d
from ...ops.adaptive import lp_pool2d as lp_pool2d
from ...ops.adaptive import lp_pool3d as lp_pool3d
from ...ops.adaptive import max_unpool1d as max_unpool1d
from ...ops.adaptive import max_unpool2d as max_unpool2d
from ...ops.adaptive import max_unpool3d as max_unpool3d
from ...ops.bags import embedding_bag as embedding_bag
from ...ops.classes import cross_entropy as cross_entropy
from ...ops.classes import nll_loss as nll_loss
from ...ops.conv import conv1d as conv1d
from ...ops.conv import conv2d as conv2d
from ...ops.conv import conv3d as conv3d
from ...ops.conv import conv_transpose1d as conv_transpose1d
from ...ops.conv import conv_transpose2d as conv_transpose2d
from ...ops.conv import conv_transpose3d as conv_transpose3d
from ...ops.ctc import ctc_loss as ctc_loss
from ...ops.distance import bilinear as bilinear
from ...ops.distance import cosine_similarity as cosine_similarity
from ...ops.distance import normalize as normalize
from ...ops.distance import pairwise_distance as pairwise_distance
from ...ops.distance import pdist as pdist
from ...ops.dropout import dropout1d as dropout1d
from ...ops.dropout import dropout2d as dropout2d
from ...ops.dropout import dropout3d as dropout3d
from ...ops.dropout import functional_alpha_dropout as alpha_dropout
from ...ops.dropout import functional_dropout as dropout
from ...ops.dropout import functional_feature_alpha_dropout as feature_alpha_dropout
from ...ops.embed import functional_embedding as embedding
from ...ops.embed import one_hot as one_hot
from ...ops.fractional import fractional_max_pool2d as fractional_max_pool2d
from ...ops.fractional import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from ...ops.fractional import fractional_max_pool3d as fractional_max_pool3d
from ...ops.fractional import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from ...ops.interpolate import interpolate as interpolate
from ...ops.interpolate import upsample as upsample
from ...ops.interpolate import upsample_bilinear as upsample_bilinear
from ...ops.interpolate import upsample_nearest as upsample_nearest
from ...ops.layer_norm import layer_norm as layer_norm
from ...ops.layer_norm import local_response_norm as local_response_norm
from ...ops.layer_norm import rms_norm as rms_norm
from ...ops.maths import sigmoid as sigmoid
from ...ops.maths import tanh as tanh
from ...ops.matmul import linear as linear
from ...ops.norm import batch_norm as batch_norm
from ...ops.norm import group_norm as group_norm
from ...ops.norm import instance_norm as instance_norm
from ...ops.pad import pad as pad
from ...ops.pool import avg_pool1d as avg_pool1d
from ...ops.pool import avg_pool2d as avg_pool2d
from ...ops.pool import avg_pool3d as avg_pool3d
from ...ops.pool import max_pool1d as max_pool1d
from ...ops.pool import max_pool1d_with_indices as max_pool1d_with_indices
from ...ops.pool import max_pool2d as max_pool2d
from ...ops.pool import max_pool2d_with_indices as max_pool2d_with_indices
from ...ops.pool import max_pool3d as max_pool3d
from ...ops.pool import max_pool3d_with_indices as max_pool3d_with_indices
from ...ops.sampling import affine_grid as affine_grid
from ...ops.sampling import grid_sample as grid_sample
from ...ops.shuffle import channel_shuffle as channel_shuffle
from ...ops.shuffle import channel_shuffle as native_channel_shuffle
from ...ops.shuffle import fold as fold
from ...ops.shuffle import pixel_shuffle as pixel_shuffle
from ...ops.shuffle import pixel_unshuffle as pixel_unshuffle
from ...ops.shuffle import unfold as unfold
from ...ops.softmax import functional_log_softmax as log_softmax
from ...ops.softmax import functional_softmax as softmax
from ...ops.softmax import softmin as softmin
from .attention import multi_head_attention_forward as multi_head_attention_forward
from .attention import scaled_dot_product_attention as scaled_dot_product_attention
from .conv_tbc import conv_tbc as conv_tbc
from .gumbel import gumbel_softmax as gumbel_softmax
from .linear_cross import linear_cross_entropy as linear_cross_entropy
from .loss import binary_cross_entropy as binary_cross_entropy
from .loss import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .loss import gaussian_nll_loss as gaussian_nll_loss
from .loss import huber_loss as huber_loss
from .loss import kl_div as kl_div
from .loss import l1_loss as l1_loss
from .loss import mse_loss as mse_loss
from .loss import poisson_nll_loss as poisson_nll_loss
from .loss import smooth_l1_loss as smooth_l1_loss
from .loss import soft_margin_loss as soft_margin_loss
from .margin import cosine_embedding_loss as cosine_embedding_loss
from .margin import hinge_embedding_loss as hinge_embedding_loss
from .margin import margin_ranking_loss as margin_ranking_loss
from .margin import multi_margin_loss as multi_margin_loss
from .margin import multilabel_margin_loss as multilabel_margin_loss
from .margin import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from .margin import triplet_margin_loss as triplet_margin_loss
from .margin import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

_faces.export(globals(), __all__)
