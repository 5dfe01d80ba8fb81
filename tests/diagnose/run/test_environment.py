from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.run.environment import additions, first_on_path, nccl_conf_names
from aidiag.diagnose.run.shells import FORMATS
from aidiag.diagnose.run.task import without_secrets

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag

FOLDER = HostFolder(Path("/shared/aidiag-j/node-a"))
NCCL = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET,GRAPH",
    "NCCL_DEBUG_FILE": "/shared/aidiag-j/node-a/nccl.%h.%p.log",
}


def test_nccl_logs_into_the_folder_where_nothing_is_set() -> None:
    """All three variables are added, with the folder in NCCL's own file pattern."""
    added = additions({}, job="j", folder=FOLDER)

    assert NCCL == {name: value for name, value in added.items() if name.startswith("NCCL_")}
    assert "/shared" == added["AIDIAG_OUT"]


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_LEVELS"])
def test_a_user_s_nccl_logging_is_left_alone(name: str) -> None:
    """Who has set one of the variables, in the environment or in NCCL's files, gets none from us."""
    for added in (
        additions({name: "WARN"}, job="j", folder=FOLDER),
        additions({}, job="j", folder=FOLDER, nccl_settings={name}),
    ):
        assert not [known for known in added if known.startswith("NCCL_")]


def test_a_percent_sign_in_the_folder_is_no_pattern() -> None:
    """NCCL reads %% as %."""
    added = additions({}, job="j", folder=HostFolder(Path("/100%/aidiag-j/a")))

    assert "/100%%/aidiag-j/a/nccl.%h.%p.log" == added["NCCL_DEBUG_FILE"]


def test_no_folder_no_nccl_log() -> None:
    """Without a folder NCCL would log into the user's output: it is left alone."""
    assert {"PYTHONPATH", "AIDIAG_JOB_ID"} == set(additions({}, job="j"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [("", "/i"), ("/a:/b", "/i:/a:/b"), ("/a:/i:/b", "/i:/a:/b"), ("/i", "/i"), (":/a:", "/i::/a:")],
)
def test_the_shim_comes_first_on_the_path_once(path: str, expected: str) -> None:
    """The user's entries keep their order, empty ones too; a nested run does not add a second time."""
    assert expected == first_on_path("/i", path)


def test_nccl_configuration_files(tmp_path: Path) -> None:
    """The names that a system's, a user's, or a chosen NCCL file sets are known; comments are not."""
    system, chosen = tmp_path / "nccl.conf", tmp_path / "chosen"
    system.write_text("# NCCL_DEBUG_FILE=x\nNCCL_DEBUG=WARN\n")
    chosen.write_text("  NCCL_DEBUG_SUBSYS = ALL\nnonsense\n")
    (tmp_path / ".nccl.conf").write_text("NCCL_IB_HCA=mlx5\n")

    assert {"NCCL_DEBUG", "NCCL_IB_HCA"} == nccl_conf_names({"HOME": str(tmp_path)}, system=system)
    both = nccl_conf_names({"HOME": str(tmp_path), "NCCL_CONF_FILE": str(chosen)}, system=system)
    assert {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"} == both
    assert set() == nccl_conf_names({"NCCL_CONF_FILE": "/proc/none"}, system=tmp_path)


def test_the_command_s_environment(aidiag: Aidiag) -> None:
    """The command has the user's environment, the additions, and nothing else."""
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    aidiag.environ["AIDIAG_JOB_ID"] = "j"
    bare = json.loads(
        subprocess.run(
            [sys.executable, "-c", show], env=aidiag.environ, cwd=aidiag.folder, capture_output=True, check=True
        ).stdout
    )
    watched = json.loads(aidiag.run(*aidiag.python(show)).stdout)

    expected = additions(bare, job="j", folder=aidiag.host)
    assert {**bare, **expected} == watched
    assert {"PYTHONPATH", "AIDIAG_OUT", *NCCL} == {name for name in watched if watched[name] != bare.get(name)}


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
VALUES = st.dictionaries(st.from_regex(r"\A[A-Z][A-Z_]{2,6}\Z"), TEXT, min_size=1, max_size=3)
SHOW = "import json, os, sys; print(json.dumps({n: os.environ.get(n) for n in sys.argv[1:]}))"


def through(shell: str, script: str, names: list[str]) -> object:
    """What a program sees that a shell starts after the script."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    words = " ".join(f"'{word}'" for word in (sys.executable, "-c", SHOW, *names))
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    told = subprocess.run([shell, "-c", f"{script}\n{words}"], capture_output=True, check=True, env=environ)
    return json.loads(told.stdout)


@pytest.mark.parametrize(("shell", "form"), [("sh", "sh"), ("bash", "sh"), ("csh", "csh"), ("fish", "fish")])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(variables=VALUES)
def test_shells_take_any_value(shell: str, form: str, variables: dict[str, str]) -> None:
    """What is printed for a shell sets just these values there, whatever is in them."""
    variables = {f"V_{name}": value for name, value in variables.items()}

    assert variables == through(shell, FORMATS[form](variables), list(variables))


def test_one_line_is_enough_for_sh() -> None:
    """Also eval $(aidiag env), without quotes, which makes one line of it, works."""
    variables = {"V_A": "1", "V_B": "/a:/b"}

    assert variables == through("sh", "eval $(cat <<'E'\n" + FORMATS["sh"](variables) + "E\n)", list(variables))


@settings(max_examples=50, deadline=None)
@given(variables=VALUES)
def test_kubernetes_and_json_take_any_value(variables: dict[str, str]) -> None:
    """The env list of a container and the JSON object read back as the same values; Kubernetes halves $$."""
    listed = yaml.safe_load(FORMATS["k8s"](variables))["env"]

    assert variables == {entry["name"]: entry["value"].replace("$$", "$") for entry in listed}
    assert variables == json.loads(FORMATS["json"](variables))


def test_docker_arguments() -> None:
    """Arguments that eval gives back as words."""
    line = FORMATS["docker"]({"A": "x y", "B": "$'"})
    told = subprocess.run(["sh", "-c", "eval printf '%s\\\\n' \"$1\"", "sh", line], capture_output=True, check=True)

    assert b"-e\nA=x y\n-e\nB=$'\n" == told.stdout


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--lr=0.1", "--lr=0.1"),
        ("--hf-token=hf_abc", "--hf-token=…"),
        ("WANDB_API_KEY=123", "WANDB_API_KEY=…"),
        ("https://me:pw@host/x", "https…host/x"),
        ("hf_abcdefghijklmnopqrstu", "…"),
        ("--tokenizer=gpt2", "--tokenizer=gpt2"),
        ("--max-tokens=100", "--max-tokens=100"),
    ],
)
def test_secrets_in_a_command_line(word: str, shown: str) -> None:
    """Values that are secret by name or by look are replaced, others stay."""
    assert (shown,) == without_secrets([word])


def test_a_secret_behind_its_option() -> None:
    """The word after --password is replaced, the one after --tokenizer is not."""
    assert ("--password", "…", "--tokenizer", "t5") == without_secrets(["--password", "x", "--tokenizer", "t5"])


@pytest.mark.parametrize(("text", "said"), [("abc", True), ("70000", True), ("9990", False)])
def test_port_from_the_environment(aidiag: Aidiag, text: str, said: bool) -> None:
    """AIDIAG_PORT is used where it is a port; else that is told once, and the command runs."""
    aidiag.environ["AIDIAG_PORT"] = text
    ended = aidiag.run("sh", "-c", "exit 4")

    assert 4 == ended.returncode
    assert (b"AIDIAG_PORT" in ended.stderr) is said
