"""How launchers, loggers and kernels mark a line: the styles of their labels, as expressions over bytes.

A group's name says what the label tells: who printed the line (`rank`, `task`, `said_rank`, `local_rank`, `host`, `pid`, …) or
when. Names with `__` are the same thing in the style of another program.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HOST = rb"[A-Za-z0-9][A-Za-z0-9_.-]{0,253}"
_ISO = rb"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_CTIME = rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"
_LEVEL = rb"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"

LABEL = re.compile(
    # Composer: rank, process and thread after the time
    rb"(?P<iso__composer>" + _ISO + rb"): rank(?P<rank__composer>\d{1,7})\[(?P<glog_pid__composer>\d{1,10})\]\[[^\[\]]{1,64}\]:[ ]"
    rb"|(?P<iso>" + _ISO + rb"):?[ \t](?:std(?:out|err)[ ][FP][ ])?(?:[-|][ ])?"  # container runtime (CRI), Python logging
    rb"|\[(?P<iso__sglang>" + _ISO + rb")(?P<parallel__sglang>(?:[ ][A-Z_]{2,8}\d{1,4}){1,5})\][ ]?"  # SGLang
    rb"|\[(?P<iso_boxed>" + _ISO + rb")(?::[ ][A-Z][ ][^\]]{1,200})?\]:?[ _]?"  # NCCL, Python logging, Horovod
    rb"|\[NeMo [A-Z] (?P<iso__nemo>" + _ISO + rb") [^\[\]]{1,200}?(?:[ ]rank:(?P<rank__nemo>\d{1,7}))?\](?:\[[\w<>]{1,80}\(\)\])?[ ]?"
    rb"|(?:" + _LEVEL + rb")[ ](?P<day>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?)[ ]\[?[\w./-]{1,200}:\d{1,6}\][ ]?"  # vLLM
    rb"|(?P<us>\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)(?:[ ]-[ ]|[ ])"  # Hugging Face examples
    rb"|\[rank(?P<rank>\d{1,7})\]:[ ]?"  # torch from 2.3
    rb"|\[rank: (?P<rank__lightning>\d{1,7})\][ ]?"  # Lightning
    # mpirun --tag-output, prterun --output tag (also with host and process), SageMaker, horovodrun
    rb"|(?P<ctime__mpi>" + _CTIME + rb")?\[(?:[\w.-]{1,120}@)?\d{1,5},(?P<task>\d{1,7})\](?:\[(?P<host__mpi>" + _HOST
    + rb"):(?P<pid__mpi>\d{1,10})\])?<std(?:out|err)>:[ ]?"
    rb"|(?:(?P<task_host__outer>" + _HOST + rb")[ ])?\[\d{1,5},mpirank:(?P<task__sagemaker>\d{1,7}),(?P<task_host>" + _HOST
    + rb")\]<std(?:out|err)>:[ ]?"
    rb"|(?P<ctime__horovod>" + _CTIME + rb")?\[(?P<task__horovod>\d{1,7})\]<std(?:out|err)>:[ ]?"
    rb"|\[(?i:local[ _-]?rank)[ :=#]{0,2}(?P<local_rank__said>\d{1,4})\]:?[ ]?"
    rb"|(?:\[(?i:global[ _-]?)?(?i:rank)[ _:=#-]{0,2}(?P<said_rank>\d{1,7})\]:?|\((?i:rank)[ :=#]{0,2}(?P<said_rank__round>\d{1,7})\):?"
    rb"|(?i:rank)[ _=#]?(?P<said_rank__open>\d{1,7})(?:[ ]?:|[ ][-|]))(?:[ ]|(?=\[))"  # what people write themselves
    rb"|\[[A-Za-z_]{1,32}(?P<local_rank>\d{1,4})\]:[ ]?"  # torchrun --tee: [default0]:
    rb"|\((?:Worker(?P<parallel__vllm>(?:_[A-Z]{2,4}\d{1,4}){1,6})|[\w.:<>-]{1,64})?(?: rank=(?P<rank__vllm>\d{1,7}))? ?pid=(?P<actor_pid>\d{1,10})"
    rb"(?:, ip=(?P<actor_host>[0-9A-Za-z.:-]{2,64}))?\)[ ]?"  # Ray, vLLM
    rb"|\[pod/(?P<pod>[\w.-]{1,253})(?:/[\w.-]{1,63})?\][ ]?"  # kubectl logs --prefix
    rb"|(?P<host>" + _HOST + rb"):(?P<pid>\d{1,10}):\d{1,10} \[(?P<device>-?\d{1,10})\][ ]"
    rb"(?:[\w./-]{1,120}:\d{1,6}[ ](?:\([\w:~]{1,120}\)[ ])?)?(?:NCCL [A-Z]{4,7}[ ])?"  # NCCL
    rb"|(?P<host__tests>" + _HOST + rb"): Test (?:NCCL|CUDA) failure [\w.]{1,80}:\d{1,6} '"  # nccl-tests
    rb"|\[(?P<c10>[VDIWEF])(?:(?P<glog>\d{3,4} \d\d:\d\d:\d\d\.\d{1,9})(?:[ ]+\d{1,10})?)?[ ][\w./-]{1,200}:\d{1,6}\][ ]?"  # c10 glog
    rb"|[VDIWEF](?P<glog_bare>\d{4} \d\d:\d\d:\d\d\.\d{1,9})(?:[ ]{1,8}(?:(?P<glog_pid>\d{1,7})|\d{8,20}))?[ ][\w./-]{1,200}:\d{1,6}\][ ]"  # torch's loggers
    rb"|(?P<syslog>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<syslog_host>" + _HOST + rb") [\w./()-]{1,64}(?:\[\d{1,10}\])?:[ ]"
    rb"|(?P<kernel_host>" + _HOST + rb") (?:kernel|[\w./()-]{1,64}\[\d{1,10}\]):[ ]"  # journalctl -o short-iso, after the time
    rb"|(?:(?:kern|user|daemon)[ ]{0,4}:[a-z]{3,7}[ ]{0,4}:[ ])?(?:<\d{1,3}>)?\[[ ]{0,8}\+?\d{1,9}\.\d{6}\][ ]"  # kernel ring
    rb"|\[(?P<ctime>" + _CTIME + rb")\][ ]"  # dmesg -T
    rb"|(?P<epoch>\d{10}(?:\.\d{1,9})?)[ ]"
)  # fmt: skip
"""Who printed the line, or when. Each alternative ends with the blanks that separate it from what follows."""

_NAME = rb"(?:\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z](?=[\w.-]{0,62}[\d.-])[\w.-]{0,62})"

BARE = re.compile(
    rb"(?P<padded>[ ]{0,6}(?P<task>\d{1,7})): ?"  # srun --label
    rb"|\[(?P<boxed_task>\d{1,5})\] "  # mpiexec -l of MPICH and Intel MPI
    rb"|(?P<host>" + _NAME + rb"): "  # pdsh, as DeepSpeed uses it, and clush
    rb"|\[(?P<boxed_host>" + _NAME + rb")(?<!\.py)(?<!\.cc)(?<!\.cpp)(?<!\.cu)(?::\d{1,4})?\] "
    rb"|(?P<piped_host>" + _NAME + rb") {1,40}\| "  # docker compose
    rb"|(?P<pod>[a-z][a-z0-9.-]{0,250}-\d{1,4}) [a-z][a-z0-9-]{0,62} "  # stern: pod and container
)
"""A number or a name at the very start: a label only where the lines around have one as well."""

LEAD = re.compile(
    rb"[ \t]{1,32}"
    rb"|[A-Za-z_][\w.]{0,127}(?:Error|Exception|Interrupt|Exit|Warning|Timeout):[ ]"
    rb"|\[?" + _LEVEL + rb"\]?(?![\w])(?::[A-Za-z_][\w.]{0,127}[A-Za-z_]:|[:|-])?[ ]?"
    rb"|\[PG [^\[\]]{1,120} Rank (?P<group_rank>\d{1,7})\][ ]{1,2}"
    rb"|\[(?![A-Za-z_]{0,32}\d{1,7}\])(?!\d)[^\[\]<>]{0,120}\][:|-]?[ ]?"
    rb"|(?:[A-Za-z_]\w{0,63}\.){1,8}[A-Za-z_]{1,63}[ ]?[:|-][ ]"
    rb"|[A-Za-z_][\w.]{0,62}[A-Za-z_] [-|] |[\w./-]{1,200}\.(?:py|cc|cpp|cu|h):\d{1,6}(?: -|\])[ ]"
    rb"|[A-Za-z_][\w.]{0,120}:[A-Za-z_<>]{1,60}:\d{1,6} - "
    rb"|[A-Za-z_]{2,64}:[ ]?|NET/\w{1,16} ?: |Net : |ncclComm\w{1,40} "
    rb"|what\(\):[ ]{1,4}|[-|:][ ]|(?:\^C){1,4}|E {3}|Node\[\d{1,6}\] |\d\d-\d\d \d\d:\d\d:\d\d |/[\w./-]{1,200}: "
    # Sentences that lead up to a message
    rb"|NCCL error: |\(\w{1,32}\) |Capture cuda graph failed: |Gloo connectFullMesh failed with |For debugging consider passing "
    rb"|(?:NCCL|Process group) watchdog thread terminated with exception: "
    rb"|One or more tensors were submitted to be reduced, gathered or broadcasted "
    rb"|\[\d{1,7}\] is setting up NCCL communicator and retrieving ncclUniqueId from \[\d{1,7}\] via c10d key-value store by key "
    rb"'[^'\[\]]{0,80}', but store->get\('[^'\[\]]{0,80}'\) got error: "
    rb"|Cuda failure [\w.]{1,80}:\d{1,6} '|[\w./-]{1,200}\.py:\d{1,6}: \w{0,40}Warning: (?:CUDA initialization: )?"
    rb"|(?:Net : )?[A-Z][a-z]{2,20}(?: [a-z]{1,20}){1,4} failed : |(?:[A-Za-z_]\w{0,63}\.){1,8}\Z|[A-Z] [\w./-]{1,200}:\d{1,6}\] "
    rb"|\w{3,60} hit an exception: |(?:Uncaught|Unhandled) exception: |ran out of memory with exception: |\[enforce fail at [\w./-]{1,200}:\d{1,6}\] [^:\[\]]{1,120}\. "
    rb"|\w{1,40} failed on SocketImpl\([^()]{1,300}\): "
    rb"|[\w./-]{1,200}\.cuh?:\d{1,6}: (?:void )?[\w:]{1,120}(?:[(<][^\[\]]{0,600})?\Z|[\w./-]{1,200}\.cuh?:\d{1,6}\Z"
)  # fmt: skip
"""What stands between the labels and the message without naming anybody. No piece ends in a number and a colon, so that the
label of another task, glued to a word, does not pass for one."""

BAR = re.compile(
    rb"[^\r\n|]{0,120}?\d{1,3}%\|[^|\r\n]{0,300}\|[ ]{0,8}[\d.,]{1,12}[kMGT]?/[\d.,?]{1,12}[kMGT]?[ ]{1,2}\[[^\[\]\r\n]{0,160}\][ ]?"
)
"""A progress bar of tqdm. It waits at the end of its line to be drawn again, so that what is printed next follows it."""

_PARALLEL = re.compile(r"([A-Z]+(?:_[A-Z]+)*)(\d+)")
_ORDINAL = re.compile(r"(?:\d+|(?<=[-._])[a-z])$")


class Bare(NamedTuple):
    """A bare label: its style, which all lines of a log share, and whom it names."""

    style: str
    task: int | None
    host: str
    end: int

    @property
    def stem(self) -> str:
        """What the names of one series have in common: `node-` of `node-a` and `node-b`."""
        return _ORDINAL.sub("", self.host)


def bare_label(text: bytes) -> Bare | None:
    """The bare label with which a line begins, if it does. What it says counts only where its style is a habit."""
    found = BARE.match(text)
    if not found or LABEL.match(text):
        return None
    if found["task"]:
        return Bare(f"{len(found['padded'])}:", int(found["task"]), "", found.end())
    if found["boxed_task"]:
        return Bare("[n]", int(found["boxed_task"]), "", found.end())
    style = next(name for name in ("host", "boxed_host", "piped_host", "pod") if found[name])
    return Bare(style, None, found[style].decode(), found.end())


def parallel_rank(style: str, names: str) -> int | None:
    """The rank that the indices of a worker say for certain, such as `TP3` or `_DP1_TP0_EP4`.

    vLLM and SGLang leave out what has size one. So an index of tensor parallelism that stands alone, or with that of
    experts, is the rank; with pipeline or data parallelism beside it, it is not. vLLM counts experts over all ranks of a stage
    (setup_proc_title_and_log_prefix in multiproc_executor.py; run_scheduler_process in sglang's scheduler.py).
    """
    index = {name: int(number) for name, number in _PARALLEL.findall(names.replace("_", " "))}
    if index.keys() <= {"TP", "EP"} and "TP" in index:
        return index["TP"]
    if style == "vllm" and "EP" in index and "PP" not in index:
        return index["EP"]
    return None
