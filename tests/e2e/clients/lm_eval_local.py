"""Tasks of lm-evaluation-harness made here, so that nothing is downloaded, and their evaluation.

Three tasks over the same records (`question`, `choices`, `answer`, which is the right one of the
choices, `right`, its index): `local_choice`, `local_likelihood` and `local_generation`.
"""

import json
import os
import sys
from pathlib import Path

from running_server import API_KEY

# Read when the libraries are imported.
os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    TQDM_DISABLE="1",
    OPENAI_API_KEY=API_KEY,
)

try:
    import lm_eval
    from lm_eval.tasks import TaskManager
except ImportError as missing:
    print(f"skipped: {missing}; run `make check-clients`")
    sys.exit(77)

TASK = """
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: {output_type}
doc_to_text: "{{{{question}}}}"
target_delimiter: ""
{more}
metadata:
  version: 1
"""

TASKS = {
    "local_choice": (
        "multiple_choice",
        'doc_to_choice: "{{choices}}"\ndoc_to_target: right\nmetric_list:\n  - metric: acc\n',
    ),
    "local_likelihood": (
        "loglikelihood",
        'doc_to_target: "{{answer}}"\nmetric_list:\n  - metric: perplexity\n  - metric: acc\n',
    ),
    "local_generation": (
        "generate_until",
        'doc_to_target: "{{answer}}"\n'
        'generation_kwargs:\n  until: ["\\n"]\n  max_gen_toks: TOKENS\n  do_sample: false\n'
        "metric_list:\n  - metric: exact_match\n",
    ),
}


def write_tasks(folder, records, max_tokens):
    """Writes the tasks into a folder; answers of `local_generation` have so many tokens at most."""
    os.environ["HF_HOME"] = str(folder / "cache")
    (folder / "test.json").write_text("\n".join(map(json.dumps, records)))
    (folder / "tasks").mkdir()
    for name, (output_type, more) in TASKS.items():
        text = TASK.format(
            name=name,
            data=folder / "test.json",
            output_type=output_type,
            more=more.replace("TOKENS", str(max_tokens)),
        )
        (folder / "tasks" / f"{name}.yaml").write_text(text)


def evaluate(folder, model, arguments):
    """lm-eval's results of the tasks in a folder, by one of its model types."""
    return lm_eval.simple_evaluate(
        model=model,
        model_args=arguments,
        tasks=list(TASKS),
        task_manager=TaskManager(include_path=str(folder / "tasks"), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )


def behind_the_server(server, model):
    """The arguments of lm-eval's `local-completions` for a folder that the server has loaded."""
    return {
        "model": Path(model).name,
        "tokenizer": str(model),
        "tokenizer_backend": "huggingface",
        "base_url": server.url + "/v1/completions",
        "batch_size": 5,
        "max_length": 512,
    }


def samples(results, task):
    return sorted(results["samples"][task], key=lambda sample: sample["doc_id"])


def metric(results, task, name):
    return results["results"][task][f"{name},none"]
