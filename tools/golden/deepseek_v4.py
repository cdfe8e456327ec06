"""DeepSeek-V4 in numpy, float64 throughout: hyper-connections, three kinds of attention, experts,
and the layer that drafts.

A position has several streams in place of one hidden row. Each part of a layer reads a mixture of
them and adds what it makes to all. Of attention there are three kinds, by compress_ratios: 0 sees
a window only; 4 (CSA) sees also entries of 4 tokens each, of which an indexer chooses; 128 (HCA)
sees also all entries of 128 tokens. One row is key and value of all heads.

Any number of positions at a time can be computed: what is kept between them is what a runtime must
keep. Run alone it checks published numbers and the golden models of this kind: chunks must agree
with the whole, both with what is stored, and both must miss once any one feature is taken away.
Needs numpy only.
"""

import json
import sys

import numpy as np

import deepseek_attention
import reference
from deepseek_attention import softmax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def scores(logits):
    """The router's sqrtsoftplus."""
    softplus = np.where(logits > 20, logits, np.log1p(np.exp(np.minimum(logits, 20))))
    return np.sqrt(softplus)


def visible(position, ratio):
    """How many entries are complete when a position has been read."""
    return (position + 1) // ratio


def sinkhorn(mix, times, epsilon):
    """Divides by sums of columns and rows in turn, columns first and last."""
    for turn in range(times):
        if turn > 0:
            mix = mix / (mix.sum(-1, keepdims=True) + epsilon)
        mix = mix / (mix.sum(-2, keepdims=True) + epsilon)
    return mix


def attend(score, values, sink):
    """Softmax with one more score that has no value. score: [..., keys], sink: [...]."""
    best = np.maximum(score.max(-1), sink)
    best = np.where(np.isfinite(best), best, 0)
    weight = np.exp(score - best[..., None])
    total = weight.sum(-1) + np.exp(sink - best)
    return weight @ values / np.where(total == 0, 1, total)[..., None]


def pool(values, gates):
    """The mean over slots that the gates weigh, each channel for itself."""
    return (softmax(gates.T).T * values).sum(0)


def compressed_rope(config):
    parameters = reference.rope(config)
    return parameters | {"rope_theta": config["compress_rope_theta"]}


class Model:
    """One of these models, and the least gaps so far of what is chosen: experts and entries.

    The gap of entries is that of the last chosen score and the best one left out, as a share of the
    largest score. Methods do not change the state that they are given.
    """

    def __init__(self, config, weights, dtype=np.float64):
        self.config = config
        self.weights = {name: weight.astype(dtype) for name, weight in weights.items()}
        self.gap = self.entry_gap = np.inf

    # What mutilated models have otherwise.

    halves = 2  # of the channels of an entry of 4 tokens: for the next entry, for its own

    def seen(self, position, ratio, made):
        return np.minimum(visible(position, ratio), made)

    def entry_position(self, number, ratio):
        return ratio * number

    def norm_queries(self, q):
        return reference.rms_norm(q, 1, self.config["rms_norm_eps"])

    def turn_back(self, x, position, ratio):
        return self.rotate(x, -position, ratio)

    def mixture(self, mix):
        config = self.config
        mix = softmax(mix) + config["hc_eps"]
        return sinkhorn(mix, config["hc_sinkhorn_iters"], config["hc_eps"])

    def gated(self, gate, up):
        limit = self.config["swiglu_limit"]
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return gate * sigmoid(gate) * up

    def carried(self, mix, streams):
        """Each new stream's share of the old ones: the second index is that of the new."""
        return mix.transpose(0, 2, 1) @ streams

    # The parts of a layer.

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T

    def norm(self, x, name):
        return reference.rms_norm(x, self.weights[name + ".weight"], self.config["rms_norm_eps"])

    def rotate(self, x, position, ratio):
        """x: [..., positions, size]; the last lanes turn, neighbours being the parts of a pair."""
        size = self.config["qk_rope_head_dim"]
        if ratio == 0:
            frequency = self.config["rope_theta"] ** (-np.arange(0, size, 2) / size)
        else:
            _, _, frequency = deepseek_attention.yarn(compressed_rope(self.config), size)
        angle = np.asarray(position)[:, None] * frequency
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        y = x.copy()
        a, b = x[..., -size::2], x[..., x.shape[-1] - size + 1 :: 2]
        y[..., -size::2] = a * cos - b * sin
        y[..., x.shape[-1] - size + 1 :: 2] = b * cos + a * sin
        return y

    def compress(self, x, base, ratio, start, state):
        """All entries made so far, [entries, size], and what to keep: rows and those entries."""
        position = np.arange(start, start + len(x))
        values, gates = self.linear(x, base + "wkv"), self.linear(x, base + "wgate")
        gates = gates + self.weights[base + "ape"][position % ratio]
        size = self.weights[base + "norm.weight"].shape[0]
        if state is None:
            entries = np.zeros((0, size), x.dtype)
        else:
            kept_values, kept_gates, entries = state
            values = np.concatenate([kept_values, values])
            gates = np.concatenate([kept_gates, gates])
        first = start + len(x) - len(values)
        both = values.shape[1] == 2 * size
        made = []
        for number in range(start // ratio, (start + len(x)) // ratio):
            at = number * ratio - first
            own = slice(at, at + ratio)
            v, g = values[own, -size:], gates[own, -size:]
            if both and self.halves == 2 and number > 0:
                before = slice(at - ratio, at)
                v = np.concatenate([values[before, :size], v])
                g = np.concatenate([gates[before, :size], g])
            row = self.norm(pool(v, g)[None], base + "norm")
            made.append(self.rotate(row, [self.entry_position(number, ratio)], ratio))
        entries = np.concatenate([entries, *made])
        keep = ratio * (2 if both else 1)
        return entries, (values[-keep:], gates[-keep:], entries)

    def choose(self, x, qr, base, ratio, start, state):
        """[positions, entries]: which ones the indexer lets a position see; and what to keep."""
        config, position = self.config, np.arange(start, start + len(x))
        entries, state = self.compress(x, base + "compressor.", ratio, start, state)
        heads, size = config["index_n_heads"], config["index_head_dim"]
        q = self.linear(qr, base + "wq_b").reshape(len(x), heads, size).transpose(1, 0, 2)
        q = self.rotate(q, position, ratio)
        weight = self.linear(x, base + "weights_proj") * (size**-0.5 * heads**-0.5)
        score = np.einsum("hpe,ph->pe", np.maximum(q @ entries.T, 0), weight)
        chosen = np.zeros(score.shape, bool)
        most = config["index_topk"]
        for row, count in enumerate(self.seen(position, ratio, len(entries))):
            chosen[row, :count] = True
            if count <= most:
                continue
            order = np.argsort(-score[row, :count], kind="stable")
            ranked = score[row, order]
            gap = (ranked[most - 1] - ranked[most]) / np.abs(ranked).max()
            self.entry_gap = min(self.entry_gap, float(gap))
            chosen[row, order[most:]] = False
        return chosen, state

    def attention(self, x, base, ratio, start, state):
        config, heads, size = self.config, self.config["num_attention_heads"], x.shape[0]
        position, window = np.arange(start, start + size), config["sliding_window"]
        kept, main, index = state or (None, None, None)

        qr = self.norm(self.linear(x, base + "wq_a"), base + "q_norm")
        q = self.linear(qr, base + "wq_b").reshape(size, heads, -1).transpose(1, 0, 2)
        q = self.rotate(self.norm_queries(q), position, ratio)
        kv = self.norm(self.linear(x, base + "wkv"), base + "kv_norm")
        keys = self.rotate(kv, position, ratio)
        if kept is not None:
            keys = np.concatenate([kept, keys])
        distance = position[:, None] - np.arange(start + size - len(keys), start + size)
        allowed = (distance >= 0) & (distance < window)
        kept = keys[-(window - 1) :]

        if ratio > 0:
            entries, main = self.compress(x, base + "compressor.", ratio, start, main)
            if base + "indexer.wq_b.weight" in self.weights:
                chosen, index = self.choose(x, qr, base + "indexer.", ratio, start, index)
            else:
                count = self.seen(position, ratio, len(entries))
                chosen = np.arange(len(entries)) < count[:, None]
            keys = np.concatenate([keys, entries])
            allowed = np.concatenate([allowed, chosen], 1)

        score = np.where(allowed, q @ keys.T * config["head_dim"] ** -0.5, -np.inf)
        sink = self.weights[base + "attn_sink"][:, None]
        mixed = self.turn_back(attend(score, keys, sink), position, ratio)
        groups = config["o_groups"]
        mixed = mixed.transpose(1, 0, 2).reshape(size, groups, -1)
        narrow = self.weights[base + "wo_a.weight"].reshape(groups, config["o_lora_rank"], -1)
        narrowed = np.einsum("pgi,goi->pgo", mixed, narrow).reshape(size, -1)
        return self.linear(narrowed, base + "wo_b"), (kept, main, index)

    def route(self, x, ids, base, layer):
        """[positions, experts]: the weight of each expert that a position uses, else 0."""
        config, used = self.config, self.config["num_experts_per_tok"]
        score = scores(self.linear(x, base + "gate"))
        if layer < config["num_hash_layers"]:
            order = self.weights[base + "gate.tid2eid"][list(ids)].astype(int)
        else:
            choice = score + self.weights.get(base + "gate.bias", 0)
            order = np.argsort(-choice, -1, kind="stable")
            ranked = np.take_along_axis(choice, order, -1)
            self.gap = min(self.gap, float((ranked[:, used - 1] - ranked[:, used]).min()))
            order = order[:, :used]
        weight = np.take_along_axis(score, order, -1)
        weight = weight / (weight.sum(-1, keepdims=True) + 1e-20) * config["routed_scaling_factor"]
        weights = np.zeros_like(score)
        np.put_along_axis(weights, order, weight, -1)
        return weights

    def experts(self, x, ids, base, layer):
        def expert(name):
            inner = self.gated(self.linear(x, name + ".w1"), self.linear(x, name + ".w3"))
            return self.linear(inner, name + ".w2")

        weights = self.route(x, ids, base, layer)
        y = expert(base + "shared_experts")
        for number in range(weights.shape[1]):
            if weights[:, number].any():
                y = y + weights[:, number, None] * expert(f"{base}experts.{number}")
        return y

    def mix(self, streams, name):
        """What a layer or head makes of all streams together: [positions, numbers]."""
        z = streams.reshape(len(streams), -1)
        size = np.sqrt((z * z).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return z @ self.weights[name + "fn"].T / size

    def connected(self, streams, name, part):
        """A part between what it reads of the streams and what it adds to them."""
        n = streams.shape[1]
        mix = self.mix(streams, name)
        base, scale = self.weights[name + "base"], self.weights[name + "scale"]
        before = sigmoid(mix[:, :n] * scale[0] + base[:n]) + self.config["hc_eps"]
        after = 2 * sigmoid(mix[:, n : 2 * n] * scale[1] + base[n : 2 * n])
        across = (mix[:, 2 * n :] * scale[2] + base[2 * n :]).reshape(-1, n, n)
        y, kept = part(np.einsum("pn,pnd->pd", before, streams))
        return after[:, :, None] * y[:, None] + self.carried(self.mixture(across), streams), kept

    def layer(self, streams, ids, base, number, start, state):
        ratio = self.config["compress_ratios"][number]

        def attention(x):
            return self.attention(
                self.norm(x, base + "attn_norm"), base + "attn.", ratio, start, state
            )

        def experts(x):
            return self.experts(self.norm(x, base + "ffn_norm"), ids, base + "ffn.", number), None

        streams, state = self.connected(streams, base + "hc_attn_", attention)
        streams, _ = self.connected(streams, base + "hc_ffn_", experts)
        return streams, state

    def read(self, ids, state=None):
        """The streams of ids that follow what the state has read, and the new state."""
        start, layers = state or (0, [None] * self.config["num_hidden_layers"])
        x = self.weights["embed.weight"][list(ids)]
        streams = np.repeat(x[:, None], self.config["hc_mult"], 1)
        after = []
        for number, kept in enumerate(layers):
            streams, kept = self.layer(streams, ids, f"layers.{number}.", number, start, kept)
            after.append(kept)
        return streams, (start + len(ids), after)

    def head(self, streams, base=""):
        mix = self.mix(streams, base + "hc_head_")
        scale, bias = self.weights[base + "hc_head_scale"], self.weights[base + "hc_head_base"]
        before = sigmoid(mix * scale + bias) + self.config["hc_eps"]
        x = np.einsum("pn,pnd->pd", before, streams)
        return self.linear(self.norm(x, base + "norm"), "head")

    def read_draft(self, streams, following, state=None):
        """The draft layer's streams of the target's streams and the tokens that follow each."""
        start, kept = state or (0, None)
        token = self.norm(self.weights["embed.weight"][list(following)], "mtp.0.enorm")
        x = self.linear(token, "mtp.0.e_proj")[:, None]
        x = x + self.linear(self.norm(streams, "mtp.0.hnorm"), "mtp.0.h_proj")
        number = self.config["num_hidden_layers"]
        x, kept = self.layer(x, following, "mtp.0.", number, start, kept)
        return x, (start + len(x), kept)

    # What the goldens hold.

    def pieces(self, ids, cuts):
        """Logits of ids and the draft layer's, read in pieces that end at these positions."""
        state = draft_state = None
        logits, drafts = [], []
        ids = list(ids)
        for begin, end in zip([0, *cuts], [*cuts, len(ids)]):
            streams, state = self.read(ids[begin:end], state)
            logits.append(self.head(streams))
            following = ids[begin + 1 : end + 1]
            if following:
                rows, draft_state = self.read_draft(
                    streams[: len(following)], following, draft_state
                )
                drafts.append(self.head(rows, "mtp.0."))
        return np.concatenate(logits), np.concatenate(drafts) if drafts else None

    def logits(self, ids):
        return self.head(self.read(ids)[0])

    def greedy(self, ids, count):
        streams, state = self.read(ids)
        found = []
        while True:
            found.append(int(self.head(streams[-1:]).argmax()))
            if len(found) == count:
                return found
            streams, state = self.read(found[-1:], state)

    def draft(self, ids, following):
        """Logits of the token after `following`, which follows ids, by the layer that drafts."""
        streams, _ = self.read(ids)
        rows, _ = self.read_draft(streams, [*ids[1:], following])
        return self.head(rows[-1:], "mtp.0.")[0]

    def drafts(self, ids, following, count):
        """The ids that the draft layer picks one after the other, fed with its own streams."""
        streams, _ = self.read(ids)
        rows, state = self.read_draft(streams, [*ids[1:], following])
        found = []
        while True:
            found.append(int(self.head(rows[-1:], "mtp.0.").argmax()))
            if len(found) == count:
                return found
            rows, state = self.read_draft(rows[-1:], found[-1:], state)


# Models without some feature.


class NoOverlap(Model):
    halves = 1


class NoCap(Model):
    def seen(self, position, ratio, made):
        return np.full_like(position, made)


class LateCap(Model):
    def seen(self, position, ratio, made):
        return np.minimum(position // ratio, made)


class LastPosition(Model):
    def entry_position(self, number, ratio):
        return ratio * number + ratio - 1


class NoQueryNorm(Model):
    def norm_queries(self, q):
        return q


class NoTurnBack(Model):
    def turn_back(self, x, position, ratio):
        return x


class NoSinkhorn(Model):
    def mixture(self, mix):
        return softmax(mix)


class Transposed(Model):
    def carried(self, mix, streams):
        return mix @ streams


class GateCutBelow(Model):
    def gated(self, gate, up):
        return super().gated(np.maximum(gate, -self.config["swiglu_limit"]), up)


def mutilations(config, weights):
    """The model with one feature taken away each: (what, model)."""

    def set_to(**changes):
        return Model(config | changes, weights)

    def changed(ending, change):
        assert any(name.endswith(ending) for name in weights)
        pairs = weights.items()
        return Model(config, {n: change(w) if n.endswith(ending) else w for n, w in pairs})

    def scaled(**changes):
        return set_to(rope_scaling=config["rope_scaling"] | changes)

    yield "sink", changed("attn_sink", lambda w: w - np.inf)
    yield "inverse rope", NoTurnBack(config, weights)
    yield "norm of queries", NoQueryNorm(config, weights)
    yield "rope theta", set_to(rope_theta=20000)
    yield "rope theta of entries", set_to(compress_rope_theta=config["rope_theta"])
    yield "rope scaling", scaled(factor=1)
    yield "position of entries", LastPosition(config, weights)
    window = config["sliding_window"]
    yield "window's exact edge, one more", set_to(sliding_window=window + 1)
    yield "window's exact edge, one less", set_to(sliding_window=window - 1)
    yield "overlap", NoOverlap(config, weights)
    yield "ape", changed("ape", lambda w: 0 * w)
    yield "cap of entries by position", NoCap(config, weights)
    yield "cap of entries, one position late", LateCap(config, weights)
    yield "index_topk, one more", set_to(index_topk=config["index_topk"] + 1)
    yield "indexer", set_to(index_topk=10**9)
    yield "indexer's weights", changed("weights_proj.weight", np.abs)
    yield "order of output groups", changed(
        "wo_a.weight", lambda w: np.roll(w, len(w) // config["o_groups"], 0)
    )
    yield "Sinkhorn", NoSinkhorn(config, weights)
    times = config["hc_sinkhorn_iters"]
    yield "Sinkhorn's exact count, one more", set_to(hc_sinkhorn_iters=times + 1)
    yield "Sinkhorn's exact count, one less", set_to(hc_sinkhorn_iters=times - 1)
    yield "hc_eps", set_to(hc_eps=1e-6)
    yield "direction of the mixture", Transposed(config, weights)
    yield "scales of hyper-connections", changed("_scale", np.ones_like)
    yield "hash routing", set_to(num_hash_layers=0)
    yield "bias of experts", changed("gate.bias", lambda w: 0 * w)
    yield "scaling of experts", set_to(routed_scaling_factor=1)
    used = config["num_experts_per_tok"]
    yield "a token's last expert", set_to(num_experts_per_tok=used - 1)
    yield "shared expert", changed("shared_experts.w2.weight", lambda w: 0 * w)
    yield "clamp", set_to(swiglu_limit=10)
    yield "clamp of the gate from above only", GateCutBelow(config, weights)


def draft_mutilations(config, weights):
    """The same for the layer that drafts."""

    def changed(name, change):
        return Model(config, weights | {"mtp.0." + name: change(weights["mtp.0." + name])})

    yield "enorm", changed("enorm.weight", np.ones_like)
    yield "hnorm", changed("hnorm.weight", np.ones_like)
    yield "a norm of its own", changed("norm.weight", lambda w: weights["norm.weight"])
    yield "a head of its own", changed("hc_head_fn", lambda w: weights["hc_head_fn"])
    yield "the token", changed("e_proj.weight", np.zeros_like)
    yield "the streams", changed("h_proj.weight", np.zeros_like)
    yield "attention", changed("attn.wo_b.weight", np.zeros_like)
    yield "bias of experts", changed("ffn.gate.bias", np.zeros_like)


def worst_error(model, golden):
    logits = [model.logits(ids) for ids in golden["prompts"]]
    return max(
        reference.relative_error(logits[e["prompt"]][e["position"]], np.array(e["row"]))
        for e in golden["logits"]
    )


def worst_draft_error(model, config, weights, golden):
    """How far the draft layer's logits are from those of the plain model."""
    plain = Model(config, weights)
    errors = []
    for ids, after in zip(golden["prompts"], golden["greedy"]):
        errors.append(
            reference.relative_error(model.draft(ids, after[0]), plain.draft(ids, after[0]))
        )
    return max(errors)


def drafts(model, golden):
    pairs = zip(golden["prompts"], golden["greedy"])
    return [model.drafts(ids, after[0], 1)[0] for ids, after in pairs]


def cuts_of(count):
    """Where to cut a prompt: after each token, at odd places, around borders of entries."""
    yield list(range(1, count))
    for size in (3, 4, 5, 17, 63, 64, 100, 127, 128, 129):
        yield list(range(size, count, size))


def check_pieces(config, weights, golden):
    worst = 0.0
    for ids, after in zip(golden["prompts"], golden["greedy"]):
        ids = [*ids, *after]
        whole = Model(config, weights).pieces(ids, [])
        for cuts in cuts_of(len(ids)):
            found = Model(config, weights).pieces(ids, cuts)
            for a, b in zip(found, whole):
                worst = max(worst, np.abs(a - b).max() / np.abs(b).max())
    print(f"  pieces and the whole: {worst:.1e}")
    return worst < 1e-12


def check_case(folder):
    config, weights = reference.load_model(folder)
    golden = json.loads((folder / "golden.json").read_text())
    model = Model(config, weights)
    error = worst_error(model, golden)
    counts = [len(after) for after in golden["greedy"]]
    same = golden["greedy"] == [model.greedy(*pair) for pair in zip(golden["prompts"], counts)]
    same &= drafts(model, golden) == golden["draft"]
    for ids, after, drafted in zip(golden["prompts"], golden["greedy"], golden["drafts"]):
        same &= model.drafts(ids, after[0], len(drafted)) == drafted
    print(f"{folder.name}: error {error:.1e}, greedy and drafts {'same' if same else 'DIFFER'}")
    narrow = worst_error(Model(config, weights, np.float32), golden)
    print(f"  in float32: {narrow:.1e}")
    print(f"  least gap of experts {model.gap:.1e}, of entries {model.entry_gap:.1e}")
    ok = error < 1e-6 and same and narrow < 1e-4 and min(model.gap, model.entry_gap) > 1e-3
    ok &= check_pieces(config, weights, golden)
    if "expert_dtype" in config:  # which has not all features, and is there for its storage
        return ok
    for what, other in mutilations(config, weights):
        missed = worst_error(other, golden)
        print(f"  without {what}: error {missed:.1e}")
        ok &= missed > 1e-3
    for what, other in draft_mutilations(config, weights):
        missed = worst_draft_error(other, config, weights, golden)
        differ = drafts(other, golden) != golden["draft"]
        print(f"  drafts without {what}: error {missed:.1e}, {'others' if differ else 'SAME'}")
        ok &= missed > 1e-3 and differ
    return ok


# Numbers that are known of the published models, and small cases worked out by hand.

FREQUENCIES = {10: 2.364354e-2, 16: 2.265625e-3, 20: 2.969778e-4, 24: 1.953125e-5}


def check_numbers():
    def near(found, wanted, tolerance):
        found, wanted = np.asarray(found, float), np.asarray(wanted, float)
        assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max(), (found, wanted)

    published = {
        "rope_theta": 10000,
        "compress_rope_theta": 160000,
        "rope_scaling": {
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 16,
            "original_max_position_embeddings": 65536,
            "type": "yarn",
        },
    }
    low, high, frequency = deepseek_attention.yarn(compressed_rope(published), 64)
    assert (low, high) == (15, 25)
    for pair, wanted in FREQUENCIES.items():
        near(frequency[pair], wanted, 1e-6)

    mixed = [[0.30918, 0.64633, 0.0445], [0.10388, 0.07989, 0.81623], [0.58695, 0.27378, 0.13927]]
    config = {"hc_sinkhorn_iters": 20, "hc_eps": 1e-6}
    near(Model(config, {}).mixture(np.array([[1, 2, 0], [0, 0, 3], [0.5, 0, 0]])), mixed, 1e-5)

    near(scores(np.array([0.0, 1, -1])), [0.8325546, 1.1459763, 0.5596979], 1e-7)
    near(scores(np.array([25.0])), [5.0], 1e-9)

    two = np.zeros((1, 2)), np.array([[3.0], [6.0]])
    near(attend(*two, np.zeros(1)), [[3.0]], 1e-15)
    near(attend(*two, np.full(1, -np.inf)), [[4.5]], 1e-15)
    near(attend(two[0] - np.inf, two[1], np.full(1, -np.inf)), [[0.0]], 0)
    # The sink at the end: by the sum of the others, whatever they were.
    score, values = np.array([[0.3, -1, 2]]), np.array([[1.0], [2], [5]])
    total = np.log(np.exp(score).sum())
    near(
        attend(score, values, np.array([0.7])),
        attend(score, values, np.array([-np.inf])) * sigmoid(total - 0.7),
        1e-15,
    )

    assert [visible(p, 128) for p in (126, 127, 254, 255)] == [0, 1, 1, 2]
    assert [visible(p, 4) for p in (2, 3, 6, 7)] == [0, 1, 1, 2]

    # Entries of 4 tokens without gates: 1..8 for the next entry, 10..80 for its own.
    class Pooled(Model):
        def norm(self, x, name):
            return x

        def rotate(self, x, position, ratio):
            return x

    weights = {
        "wkv.weight": np.eye(2),
        "wgate.weight": np.zeros((2, 2)),
        "ape": np.zeros((4, 2)),
        "norm.weight": np.ones(1),
    }
    rows = np.stack([np.arange(1.0, 9), 10 * np.arange(1.0, 9)], 1)
    near(Pooled({}, weights).compress(rows, "", 4, 0, None)[0], [[25], [33.75]], 1e-15)
    print("DeepSeek-V4: rope of entries, Sinkhorn, scores, sink, entries as they should be")


def main():
    check_numbers()
    ok = True
    for path in sorted(reference.MODELS.glob("*/config.json")):
        if json.loads(path.read_text())["model_type"] == "deepseek_v4":
            ok &= check_case(path.parent)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
