"""Small configurations of transformers: the default of each class, with every number that sets its cost made small."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

# The names that configurations give to their sizes. A name is set only where the default is larger.
SIZES = {
    **dict.fromkeys(("vocab_size", "vocab_size_or_config_json_file", "text_vocab_size", "entity_vocab_size"), 97),
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "hidden_dim", "emb_dim", "projection_dim",
         "embedding_size", "output_dim", "decoder_hidden_size", "encoder_hidden_size", "word_embed_proj_dim",
         "projector_hidden_size", "out_hidden_size", "dim_model", "model_dim", "attention_hidden_size",
         "entity_emb_size", "embedding_dim", "output_hidden_size", "audio_hidden_size"), 32),
    **dict.fromkeys(
        ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner", "ffn_hidden_size",
         "moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size", "dim_ff", "mlp_dim",
         "feed_forward_hidden_size", "expert_ffn_size", "intermediate_size_mlp", "decoder_intermediate_size",
         "moe_shared_expert_intermediate_size", "dense_intermediate_size", "d_inner"), 48),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth",
         "num_decoder_layers", "num_encoder_layers", "encoder_num_hidden_layers", "decoder_num_hidden_layers",
         "num_hidden_groups", "encoder_depth", "decoder_depth"), 2),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
         "decoder_num_attention_heads", "encoder_num_attention_heads", "num_kv_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions", "context_length",
         "max_seq_len", "n_ctx", "max_sequence_length", "max_seq_length"), 128),
    **dict.fromkeys(("head_dim", "d_kv", "d_head", "attention_head_size", "kv_channels"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "top_k"), 2),
    **dict.fromkeys(("sliding_window", "attention_window_size", "window"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "qk_head_dim", "index_head_dim"), 8),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "mamba_d_head", "mamba_head_dim"), 8),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads", "index_n_heads", "mamba_num_heads"), 4),
    **dict.fromkeys(("mamba_d_state", "state_size", "ssm_state_size", "conv_dim"), 8),
    **dict.fromkeys(("time_step_rank", "mamba_dt_rank"), 8),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    "image_size": 32, "patch_size": 8, "num_mel_bins": 16, "num_queries": 8, "index_topk": 8,
    "chunk_size": 4, "mamba_chunk_size": 4, "num_codebooks": 2, "codebook_size": 32,
}  # fmt: skip
LISTS = {"hidden_sizes": 16, "encoder_hidden_sizes": 16, "depths": 1, "neck_hidden_sizes": 16}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


# What models want of each other beyond this, by the type of the model.
ALSO: dict[str, dict[str, Any]] = {
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 8, "attn_layer_indices": [1]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
}
# From the smallest configuration to the one that has the best chance to run: the names that keep their default.
LEVELS: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset(name for name in SIZES if name.startswith(("mamba_", "linear_", "index_", "chunk", "conv"))),
    frozenset(name for name in SIZES if SIZES[name] <= 16 and "layers" not in name and "heads" not in name),
    frozenset(name for name in SIZES if "layer" not in name and name not in ("vocab_size", "n_embd", "hidden_size")),
    frozenset(name for name in SIZES if "layer" not in name and name != "vocab_size"),
)


def small(kind: type, level: int = 0) -> Any:
    """A configuration of this class in which numbers, lists of layers and configurations inside are small."""
    default: Any = kind()
    named = inspect.signature(kind.__init__).parameters
    sizes = {name: size for name, size in SIZES.items() if name not in LEVELS[level]}
    values: dict[str, Any] = {}
    for name, parameter in named.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or name == "self":
            continue
        found = getattr(default, name, None)
        if name in sizes and isinstance(found, int) and not isinstance(found, bool) and found > sizes[name]:
            values[name] = sizes[name]
        elif name in LISTS and isinstance(found, (list, tuple)):
            values[name] = [min(each, LISTS[name]) for each in found]
        elif name in TOKENS and (found is None or isinstance(found, int)):
            values[name] = TOKENS[name]
    values |= _kinds_of_layers(default, named) | _inner(default, named, level)
    values |= {name: value for name, value in ALSO.get(default.model_type, {}).items() if name in named}
    return kind(**values)


def _kinds_of_layers(default: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """A layer of each kind, where a model has several."""
    kinds = getattr(default, "layer_types", None)
    if not isinstance(kinds, (list, tuple)) or not {"layer_types", "num_hidden_layers"} <= named.keys():
        return {}
    different = list(dict.fromkeys(kinds))
    chosen = different if len(different) > 1 else different * 2
    return {"layer_types": chosen, "num_hidden_layers": len(chosen)}


def _inner(default: Any, named: Mapping[str, Any], level: int) -> dict[str, Any]:
    """The configurations inside of a configuration, made small too."""
    found = {}
    for name in getattr(default, "sub_configs", None) or {}:
        part = getattr(default, name, None)
        if part is not None and name in named:
            found[name] = small(type(part), level).to_dict()
    return found
