"""Who belongs to whom: ranks to hosts and jobs, GPUs and ports to hosts, ranks to their GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aidiag.collectors.subject import Subject, SubjectKind, host, job


class Relations:
    """The subjects that have been seen, by kind and by what they belong to."""

    def __init__(self) -> None:
        self._subjects: dict[SubjectKind, dict[Subject, None]] = {}
        self._gpus: dict[Subject, Subject] = {}
        self._ranks: dict[tuple[str, str], Subject] = {}
        self._hosts: dict[str, dict[str, None]] = {}
        self._jobs: dict[str, dict[str, None]] = {}

    def subjects(self, kind: SubjectKind) -> Sequence[Subject]:
        """All subjects of a kind."""
        return list(self._subjects.get(kind, ()))

    def knows(self, subject: Subject) -> bool:
        """Whether a subject has been seen."""
        return subject in self._subjects.get(subject.kind, ())

    def add(self, subject: Subject) -> bool:
        """Take a subject that has been seen; True where it is new."""
        known = self._subjects.setdefault(subject.kind, {})
        if subject in known:
            return False
        known[subject] = None
        if subject.kind == "rank" and subject.host:
            self._ranks[subject.job, subject.name] = subject
            self._hosts.setdefault(subject.job, {})[subject.host] = None
            self._jobs.setdefault(subject.host, {})[subject.job] = None
        if subject.job and subject.kind != "job":
            self.add(job(subject.job))
        if subject.host and subject.kind != "host":
            self.add(host(subject.host))
        return True

    def discard(self, subject: Subject) -> None:
        """Forget a subject that has turned out to be another one."""
        self._subjects.get(subject.kind, {}).pop(subject, None)

    def rebuild(self, subjects: Iterable[Subject]) -> None:
        """Know these subjects and what they belong to, and no others."""
        gpus = self._gpus
        self.__init__()  # type: ignore[misc]
        for subject in subjects:
            self.add(subject)
        self._gpus = {rank: gpu for rank, gpu in gpus.items() if self.knows(rank)}

    def set_gpu(self, rank: Subject, index: str) -> None:
        """A rank uses the GPU of an index on its host."""
        if index.isdecimal():
            self._gpus[rank] = Subject("gpu", f"gpu{int(index)}", host=rank.host)

    def resolved(self, subject: Subject) -> Subject:
        """The subject with its host, where only one known rank of that number can be meant."""
        if subject.kind != "rank" or subject.host:
            return subject
        found = self._ranks.get((subject.job, subject.name))
        if found is None and not subject.job:
            same = [rank for (_, name), rank in self._ranks.items() if name == subject.name]
            found = same[0] if len(same) == 1 else None
        return found or subject

    def related(self, subject: Subject, kind: SubjectKind) -> Subject | None:
        """The one subject of `kind` that `subject` belongs to or uses, itself included."""
        if subject.kind == kind:
            return subject
        if kind == "host":
            return host(subject.host) if subject.host else None
        if kind == "gpu":
            return self._gpus.get(subject)
        if kind == "job":
            if subject.job:
                return job(subject.job)
            jobs = self._jobs.get(subject.host, {})
            if subject.kind == "rank" and not jobs:
                return job("")  # of a log that names neither job nor host
            return job(next(iter(jobs))) if len(jobs) == 1 else None
        return None

    def members(self, kind: SubjectKind, root: Subject) -> list[Subject]:
        """The subjects of `kind` on a host or in a job."""
        known = self._subjects.get(kind, {})
        if root.kind == "host":
            return [subject for subject in known if subject.host == root.host]
        if kind == "rank":
            return [subject for subject in known if subject.job == root.job]
        hosts = self._hosts.get(root.job, {})
        return [subject for subject in known if subject.host in hosts or subject == root]
