"""A small Llama, written out: the names and shapes are those of Hugging Face's LlamaForCausalLM."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    vocab: int = 288
    width: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 32
    inner: int = 384
    context: int = 512
    rope_base: float = 10000.0
    norm_epsilon: float = 1e-5


class RmsNorm(nn.Module):
    def __init__(self, shape, width=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width or shape.width))
        self.epsilon = shape.norm_epsilon

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


def rope_tables(shape, length):
    """cos and sin, each [length, head_width]; the two halves of a head are rotated as pairs."""
    half = torch.arange(0, shape.head_width, 2).float() / shape.head_width
    angles = torch.arange(length).float()[:, None] / shape.rope_base**half
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        kv_width = shape.kv_heads * shape.head_width
        q_width = shape.heads * shape.head_width
        self.q_proj = nn.Linear(shape.width, q_width, bias=False)
        self.k_proj = nn.Linear(shape.width, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.width, kv_width, bias=False)
        self.o_proj = nn.Linear(q_width, shape.width, bias=False)

    def forward(self, x, cos, sin, mask):
        rows, length, _ = x.shape
        s = self.shape

        def split(y, heads):
            return y.view(rows, length, heads, s.head_width).transpose(1, 2)

        q = rotate(split(self.q_proj(x), s.heads), cos, sin)
        k = rotate(split(self.k_proj(x), s.kv_heads), cos, sin)
        v = split(self.v_proj(x), s.kv_heads)
        # Query head h reads key-value head h // group: fold a group into the query length.
        group = s.heads // s.kv_heads
        q = q.reshape(rows, s.kv_heads, group * length, s.head_width)
        scores = q @ k.transpose(-1, -2) / math.sqrt(s.head_width) + mask.repeat(group, 1)
        y = (scores.softmax(-1) @ v).view(rows, s.heads, length, s.head_width)
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))


class Mlp(nn.Module):
    def __init__(self, shape, inner=None):
        super().__init__()
        inner = inner or shape.inner
        self.gate_proj = nn.Linear(shape.width, inner, bias=False)
        self.up_proj = nn.Linear(shape.width, inner, bias=False)
        self.down_proj = nn.Linear(inner, shape.width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = RmsNorm(shape)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RmsNorm(shape)
        self.mlp = Mlp(shape)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RmsNorm(shape)


class Llama(nn.Module):
    """tokens [rows, length] → final hidden states; logits() projects chosen ones (tied weights)."""

    drafts = False
    has_experts = False

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.model = Trunk(shape)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 if parameter.shape[0] == shape.vocab
                                else parameter.shape[1] ** -0.5)
        for layer in self.model.layers:
            for out in (layer.self_attn.o_proj, layer.mlp.down_proj):
                out.weight.data /= math.sqrt(2 * shape.layers)

    def forward(self, tokens):
        length = tokens.shape[1]
        cos, sin = rope_tables(self.shape, length)
        mask = torch.full((length, length), -1e9).triu(1)
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, cos, sin, mask)
        return self.model.norm(x)

    def logits(self, hidden):
        return hidden @ self.model.embed_tokens.weight.t()


@torch.no_grad()
def generate(model, prompts, most, eos):
    """Greedy continuations of token lists, without eos; at most `most` tokens each."""
    results = [None] * len(prompts)
    by_length = {}
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    for indices in by_length.values():
        tokens = torch.tensor([prompts[i] for i in indices])
        start = tokens.shape[1]
        for _ in range(most):
            best = model.logits(model(tokens)[:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat((tokens, best), dim=1)
        for i, row in zip(indices, tokens[:, start:].tolist()):
            results[i] = row[: row.index(eos)] if eos in row else row + [None]
    return results
