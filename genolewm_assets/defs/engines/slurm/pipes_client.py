"""Pipes client that runs a command as a Slurm job, follows it, and cancels it if the step ends first."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from dagster_pipes import PipesExtras

from genolewm_assets.defs.engines.slurm import commands
from genolewm_assets.defs.engines.slurm.commands import NoAnswerError
from genolewm_assets.defs.engines.slurm.job_folder import FileMessageReader, JobFolder, Tail
from genolewm_assets.defs.engines.slurm.job_states import JobView, Phase
from genolewm_assets.defs.engines.slurm.settings import SlurmSettings
from genolewm_assets.errors import DeviceError

#: Seconds between two looks at the files of a job, and at the job itself: at first, and at most.
_FILES_S, _FIRST_LOOK_S, _LONGEST_LOOK_S = 0.5, 0.5, 15.0

#: Seconds that another machine may take to see what a job wrote last, and that Slurm may take to end a job.
_VISIBLE_S, _CANCEL_S = 90.0, 120.0


class SlurmJobError(DeviceError):
    """A job did not succeed; ``state`` is the last that Slurm said of it, ``messages`` what it told itself."""

    state: str = ""
    messages: Sequence[object] = ()


@dataclass
class _Job:
    """A submitted job, and what was seen of it."""

    job_id: int
    name: str
    begun_s: float
    answered_s: float
    view: JobView | None = None
    is_silent: bool = False
    look_s: float = _FIRST_LOOK_S
    ending_since_s: float | None = None
    may_be_twice: bool = False

    def __str__(self) -> str:
        return f"Slurm job {self.job_id}"


@dataclass
class PipesSlurmClient(dg.PipesClient):
    """Runs a command as a batch job with the settings of ``SlurmSettings``.

    Attributes
    ----------
    clock, sleep
        Seconds that never decrease, and how to let them pass.
    """

    settings: SlurmSettings
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(  # type: ignore[override]
        self,
        *,
        context: dg.AssetExecutionContext,
        extras: PipesExtras | None = None,
        command: Sequence[str],
        name: str,
        comment: str,
        folder: Path,
    ) -> dg.PipesClientCompletedInvocation:
        """Run a command to its end; return only if Slurm says that it succeeded and it closed its messages.

        Parameters
        ----------
        name
            Name of the job, without spaces. It waits for jobs of this name that were submitted before.
        comment
            Comment of the job, without spaces; no other job has it.
        folder
            A new folder that every node sees; it is removed in the end.

        Raises
        ------
        SlurmJobError
            If the job ended otherwise, waited too long, or nothing was heard of it.
        ConfigurationError
            If Slurm refuses the job.
        """
        place = JobFolder(folder)
        place.create()
        reader = FileMessageReader(place.messages)
        try:
            with dg.open_pipes_session(
                # Of the asset's context, Dagster's own code reads what it has deprecated.
                context=context.op_execution_context,
                context_injector=dg.PipesFileContextInjector(str(place.context)),
                message_reader=reader,
                extras=extras,
            ) as session:
                try:
                    _Run(self, place, reader, name, comment).to_its_end(command, session.get_bootstrap_env_vars())
                except SlurmJobError as err:
                    err.messages = session.message_handler.get_custom_messages()
                    raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return dg.PipesClientCompletedInvocation(session)


@dataclass
class _Run:
    """One run of the client."""

    client: PipesSlurmClient
    place: JobFolder
    reader: FileMessageReader
    name: str
    comment: str

    def __post_init__(self) -> None:
        self._output = Tail(self.place.output, _print)
        self._log = dg.get_dagster_logger()

    def to_its_end(self, command: Sequence[str], values: Mapping[str, str]) -> None:
        job = self._submitted(command, values)
        try:
            self._follow(job)
        except BaseException:
            self._cancel(job)
            self._read()
            raise

    def _submitted(self, command: Sequence[str], values: Mapping[str, str]) -> _Job:
        settings, begun_s = self.client.settings, self.client.clock()
        options, environment = [*settings.options, *self._options()], {**settings.environment, **values}
        wait_s, tries = _FIRST_LOOK_S, 0
        try:
            while True:
                tries += 1
                try:
                    job_id = commands.submit(options, self.place.script, command, environment)
                    break
                except NoAnswerError as err:
                    if self.client.clock() - begun_s > settings.silence_s:
                        raise self._failure("no job could be submitted", str(err)) from err
                    self._log.warning("%s Another try follows", err)
                self.client.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_LOOK_S)
                with suppress(NoAnswerError):
                    if found := commands.find(self.name, self.comment):
                        job_id = found[0]
                        break
        except BaseException:
            # An interrupted sbatch may have submitted the job.
            with suppress(NoAnswerError):
                for stray in commands.find(self.name, self.comment):
                    commands.cancel(stray)
            raise
        self._log.info("Slurm job %d was submitted as %s: %s", job_id, self.name, " ".join(settings.options))
        now = self.client.clock()
        return _Job(job_id, self.name, now, now, may_be_twice=tries > 1)

    def _options(self) -> list[str]:
        # sbatch takes % for the beginning of a pattern.
        output = str(self.place.output).replace("%", "%%")
        return [
            f"--job-name={self.name}",
            f"--comment={self.comment}",
            f"--output={output}",
            "--open-mode=append",
            "--chdir=/",
            "--nodes=1",
            "--ntasks=1",
            "--no-requeue",
            # A step that was killed may have left a job that still builds the same.
            "--dependency=singleton",
        ]

    def _follow(self, job: _Job) -> None:
        """Read what the job writes, and look at it now and then, until it has succeeded."""
        looked_s = float("-inf")
        while True:
            closed = self.reader.closed
            self._read()
            if self.reader.closed and not closed:
                job.look_s = _FIRST_LOOK_S
            if self.client.clock() - looked_s >= job.look_s:
                if self._look(job):
                    break
                looked_s = self.client.clock()
            self.client.sleep(_FILES_S)
        self._await_last_words()
        if not self.reader.closed:
            raise self._failure(f"{job} ended, but did not say that it had finished", job.view)

    def _look(self, job: _Job) -> bool:
        """Look at the job; return whether it has succeeded, and raise if it no longer can."""
        now = self.client.clock()
        try:
            view = commands.look(job.job_id, job.name)
        except NoAnswerError as err:
            if now - job.answered_s > self.client.settings.silence_s:
                raise self._failure(f"nothing is known of {job} for {now - job.answered_s:.0f} s", str(err)) from err
            if not job.is_silent:
                self._log.warning("%s It is asked again for %.0f s", err, self.client.settings.silence_s)
            job.is_silent = True
            return False
        job.is_silent, job.answered_s = False, now
        if view is None:
            raise self._failure(f"{job} is unknown to Slurm, so nobody can tell how it ended", job.view)
        changed = job.view is None or (view.state, view.reason) != (job.view.state, job.view.reason)
        job.look_s = _FIRST_LOOK_S if changed else min(1.5 * job.look_s, _LONGEST_LOOK_S)
        if changed:
            self._tell(job, view)
        job.view = view
        if job.may_be_twice and view.phase is Phase.PENDING:
            self._cancel_others(job)
        return self._judge(job, view, now)

    def _cancel_others(self, job: _Job) -> None:
        """Cancel jobs that an earlier ``sbatch`` submitted without saying so; this one waits for them."""
        with suppress(NoAnswerError):
            for other in commands.find(self.name, self.comment):
                if other != job.job_id:
                    commands.cancel(other)
                    self._log.warning("Slurm job %d was submitted besides %s. It is cancelled", other, job)

    def _tell(self, job: _Job, view: JobView) -> None:
        if view.phase is Phase.PENDING:
            self._log.info("%s waits: %s", job, view)
        else:
            self._log.info("%s is %s on %s", job, view, view.nodes)

    def _judge(self, job: _Job, view: JobView, now: float) -> bool:
        if view.phase is Phase.PENDING and now - job.begun_s > self.client.settings.pending_s:
            raise self._failure(
                f"{job} waited for {self.client.settings.pending_s:.0f} s and did not start",
                view,
                remedy="GENOLEWM_SLURM_PENDING_S is how long it may wait",
            )
        if view.phase is Phase.ENDING:
            job.ending_since_s = job.ending_since_s or now
            if now - job.ending_since_s > self.client.settings.silence_s:
                raise self._failure(f"{job} does not come to its end", view)
        if view.phase is Phase.FAILED or (view.phase is Phase.ENDED and not view.succeeded):
            if view.states_its_error:
                self._await_last_words()
            self._read()
            raise self._failure(f"{job} did not succeed", view)
        return view.succeeded

    def _await_last_words(self) -> None:
        """Wait until the last message of a job that has ended can be seen, if it wrote one."""
        deadline = self.client.clock() + _VISIBLE_S
        self._read()
        while not self.reader.closed and self.client.clock() < deadline:
            self.client.sleep(_FILES_S)
            self._read()

    def _cancel(self, job: _Job) -> None:
        """End the job, and wait until Slurm says that it has ended."""
        deadline, wait_s, asked = self.client.clock() + _CANCEL_S, _FIRST_LOOK_S, False
        while True:
            try:
                view = commands.look(job.job_id, job.name)
            except NoAnswerError as err:
                self._log.warning("%s is to be cancelled: %s", job, err)
            else:
                if view is None or view.is_over:
                    if asked:
                        self._log.info("%s was cancelled: %s", job, view or "unknown to Slurm")
                    return
            if self.client.clock() > deadline:
                self._log.error("%s may still run: Slurm does not say that it ended. Run: scancel %d", job, job.job_id)
                return
            with suppress(NoAnswerError):
                commands.cancel(job.job_id)
                asked = True
            self.client.sleep(wait_s)
            wait_s = min(1.5 * wait_s, 5.0)

    def _failure(self, problem: str, got: JobView | str | None, remedy: str = "") -> SlurmJobError:
        last = self.place.last_line()
        err = SlurmJobError(
            self.name,
            problem,
            got=None if got is None else str(got).removesuffix("."),
            remedy=remedy or (f"The last line that it printed: {last}" if last else ""),
        )
        err.state = got.state if isinstance(got, JobView) else ""
        return err

    def _read(self) -> None:
        self.reader.read()
        self._output.read()


def _print(text: str) -> None:
    """Print what the job printed, so that the UI finds it with what the step prints."""
    sys.stdout.write(text)
    sys.stdout.flush()
