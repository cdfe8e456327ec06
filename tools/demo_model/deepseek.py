"""A small DeepSeek-V3, written out: the names and shapes are those of Hugging Face's
DeepseekV3ForCausalLM, and of the multi-token-prediction layer in the published files.

Attention keeps a latent of each position and a rotated key that all heads share; every layer but
the first has experts; the layer after the last one drafts the token after the next."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from llama import Mlp, RmsNorm


@dataclass(frozen=True)
class Shape:
    vocab: int = 288
    width: int = 128
    layers: int = 4  # without the drafting one
    dense_layers: int = 1  # so many of the first have no experts
    heads: int = 4
    q_latent: int = 96
    kv_latent: int = 64
    plain: int = 32  # of a head's query and key, without RoPE
    rotated: int = 32  # with it
    value: int = 32
    inner: int = 384
    experts: int = 8
    chosen: int = 2
    expert_inner: int = 64  # of the shared expert, too
    expert_scale: float = 1.5
    context: int = 512
    rope_base: float = 10000.0
    norm_epsilon: float = 1e-6


def rope_tables(shape, length):
    """cos and sin, each [length, rotated / 2]: one angle for each pair."""
    exponents = torch.arange(0, shape.rotated, 2).float() / shape.rotated
    angles = torch.arange(length).float()[:, None] / shape.rope_base**exponents
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """Rotates the pairs (2i, 2i + 1). The results lie as two halves, which no product of a query
    with a key sees."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = s = shape
        self.q_a_proj = nn.Linear(s.width, s.q_latent, bias=False)
        self.q_a_layernorm = RmsNorm(s, s.q_latent)
        self.q_b_proj = nn.Linear(s.q_latent, s.heads * (s.plain + s.rotated), bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(s.width, s.kv_latent + s.rotated, bias=False)
        self.kv_a_layernorm = RmsNorm(s, s.kv_latent)
        self.kv_b_proj = nn.Linear(s.kv_latent, s.heads * (s.plain + s.value), bias=False)
        self.o_proj = nn.Linear(s.heads * s.value, s.width, bias=False)

    def forward(self, x, cos, sin, mask):
        rows, length, _ = x.shape
        s = self.shape

        def split(y, *widths):
            return y.view(rows, length, -1, sum(widths)).transpose(1, 2).split(widths, dim=-1)

        queries = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q, q_rotated = split(queries, s.plain, s.rotated)
        latent, k_rotated = self.kv_a_proj_with_mqa(x).split((s.kv_latent, s.rotated), dim=-1)
        k, v = split(self.kv_b_proj(self.kv_a_layernorm(latent)), s.plain, s.value)
        q_rotated = rotate(q_rotated, cos, sin)
        k_rotated = rotate(k_rotated, cos, sin)[:, None].expand(-1, s.heads, -1, -1)
        q = torch.cat((q, q_rotated), dim=-1)
        k = torch.cat((k, k_rotated), dim=-1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(s.plain + s.rotated) + mask
        y = scores.softmax(-1) @ v
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))


class Router(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.weight = nn.Parameter(torch.empty(shape.experts, shape.width))
        self.register_buffer("e_score_correction_bias", torch.zeros(shape.experts))

    def forward(self, x):
        """Numbers and weights of the chosen experts, each [positions, chosen]. The bias has a say
        in the choice alone."""
        with torch.autocast("cpu", enabled=False):
            scores = F.linear(x.float(), self.weight).sigmoid()
        chosen = (scores.detach() + self.e_score_correction_bias).topk(self.shape.chosen).indices
        weights = scores.gather(1, chosen)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.shape.expert_scale
        return chosen, weights


class ExpertMlp(nn.Module):
    """In training it keeps the loads of the last call, for balance()."""

    def __init__(self, shape):
        super().__init__()
        self.gate = Router(shape)
        self.experts = nn.ModuleList(Mlp(shape, shape.expert_inner) for _ in range(shape.experts))
        self.shared_experts = Mlp(shape, shape.expert_inner)
        self.loads = None

    def forward(self, x, routed):
        """routed: which of the positions go to experts at all, [rows, length]; padding need not."""
        count = len(self.experts)
        flat = x.reshape(-1, x.shape[-1])
        chosen, weights = self.gate(flat)
        chosen = chosen.masked_fill(~routed.reshape(-1, 1), count).flatten()
        loads = torch.bincount(chosen, minlength=count + 1)[:count]
        if self.training:
            self.loads = loads.float()
        # Each expert gets its positions in one piece; those that no expert gets sort last.
        order = chosen.argsort(stable=True)[: int(loads.sum())]
        at = order // self.gate.shape.chosen
        pieces = flat.index_select(0, at).split(loads.tolist())
        outputs = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces)])
        weighted = outputs * weights.flatten().index_select(0, order)[:, None]
        y = self.shared_experts(flat).float().index_add(0, at, weighted.float())
        return y.view(x.shape)

    @torch.no_grad()
    def balance(self, rate):
        """Makes experts with a small load more likely to be chosen, and others less."""
        loads = self.loads
        self.gate.e_score_correction_bias += rate * (loads.mean() - loads).sign()


class Layer(nn.Module):
    def __init__(self, shape, has_experts):
        super().__init__()
        self.input_layernorm = RmsNorm(shape)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RmsNorm(shape)
        self.mlp = ExpertMlp(shape) if has_experts else Mlp(shape)
        self.has_experts = has_experts

    def forward(self, x, tables, routed):
        x = x + self.self_attn(self.input_layernorm(x), *tables)
        y = self.post_attention_layernorm(x)
        return x + (self.mlp(y, routed) if self.has_experts else self.mlp(y))


class SharedHead(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm = RmsNorm(shape)


class DraftLayer(Layer):
    def __init__(self, shape):
        super().__init__(shape, has_experts=True)
        self.enorm = RmsNorm(shape)
        self.hnorm = RmsNorm(shape)
        self.eh_proj = nn.Linear(2 * shape.width, shape.width, bias=False)
        self.shared_head = SharedHead(shape)

    def forward(self, embedded, hidden, tables, routed):
        both = torch.cat((self.enorm(embedded), self.hnorm(hidden)), dim=-1)
        return self.shared_head.norm(super().forward(self.eh_proj(both), tables, routed))


class Trunk(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.width)
        layers = [Layer(shape, i >= shape.dense_layers) for i in range(shape.layers)]
        self.layers = nn.ModuleList([*layers, DraftLayer(shape)])
        self.norm = RmsNorm(shape)


class DeepSeek(nn.Module):
    """tokens [rows, length] → final hidden states; logits() projects chosen ones."""

    drafts = True
    has_experts = True

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.model = Trunk(shape)
        self.lm_head = nn.Linear(shape.width, shape.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 if parameter.shape[0] == shape.vocab
                                else parameter.shape[1] ** -0.5)
        for name, parameter in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.data /= math.sqrt(2 * shape.layers)

    def _tables(self, length):
        mask = torch.full((length, length), -1e9).triu(1)
        return *rope_tables(self.shape, length), mask

    def forward(self, tokens, routed=None):
        """routed, [rows, length]: False for padding."""
        routed = torch.ones_like(tokens, dtype=torch.bool) if routed is None else routed
        tables = self._tables(tokens.shape[1])
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers[:-1]:
            x = layer(x, tables, routed)
        return self.model.norm(x)

    def draft(self, hidden, tokens, routed=None):
        """Hidden states for the token after the next, at every position but the last, from those
        of forward() and the next token; logits() projects them, too."""
        following = tokens[:, 1:]
        routed = torch.ones_like(following, dtype=torch.bool) if routed is None else routed
        embedded = self.model.embed_tokens(following)
        return self.model.layers[-1](embedded, hidden[:, :-1], self._tables(following.shape[1]),
                                     routed)

    def logits(self, hidden):
        return self.lm_head(hidden)

    def expert_layers(self):
        return sum(layer.has_experts for layer in self.model.layers)

    def loads(self):
        """How many positions each expert got in the last call, for each layer with experts."""
        return [layer.mlp.loads for layer in self.model.layers if layer.has_experts]

    def balance(self, rate):
        for layer in self.model.layers:
            if layer.has_experts:
                layer.mlp.balance(rate)
