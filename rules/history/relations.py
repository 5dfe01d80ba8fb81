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
        self._numbered: dict[str, list[Subject]] = {}
        self._placed: dict[tuple[SubjectKind, str], dict[Subject, None]] = {}
        self._ranks_of: dict[str, dict[Subject, None]] = {}
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
        self._placed.setdefault((subject.kind, subject.host), {})[subject] = None
        if subject.kind == "rank":
            self._ranks_of.setdefault(subject.job, {})[subject] = None
        if subject.kind == "rank" and subject.host:
            if (subject.job, subject.name) not in self._ranks:
                self._numbered.setdefault(subject.name, []).append(subject)
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
        self._placed.get((subject.kind, subject.host), {}).pop(subject, None)
        self._ranks_of.get(subject.job, {}).pop(subject, None)

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
            same = self._numbered.get(subject.name, [])
            found = self._ranks[same[0].job, same[0].name] if len(same) == 1 else None
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
        if root.kind == "host":
            return list(self._placed.get((kind, root.host), ()))
        if kind == "rank":
            return list(self._ranks_of.get(root.job, ()))
        found = [subject for name in self._hosts.get(root.job, {}) for subject in self._placed.get((kind, name), ())]
        return [*found, root] if kind == root.kind and self.knows(root) else found

    def hosts(self, root: Subject) -> list[str]:
        """The names of the hosts that run ranks of a job, and of no other one."""
        return [name for name in self._hosts.get(root.job, ()) if len(self._jobs[name]) == 1]
