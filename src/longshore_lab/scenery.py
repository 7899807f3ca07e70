"""What a board shows, looked up: the queue's own counts and the condition of each worker."""

from longshore.contract import Engine
from longshore_lab.board import Scene
from longshore_lab.fleet import Actor, Fleet

__all__ = ["look"]


async def look(scene: Scene, fleet: Fleet, engine: Engine) -> None:
    """Bring the scene up to date."""
    counts = await engine.counts()
    scene.waiting = sum(one.ready for one in counts)
    scene.delayed = sum(one.scheduled for one in counts)
    scene.running = sum(one.running for one in counts)
    scene.succeeded = sum(one.succeeded for one in counts)
    scene.dead = sum(one.dead for one in counts)
    scene.workers = [
        (one.name, _condition(one)) for one in fleet.actors if one.role == "worker"
    ][-scene.shown :]


def _condition(actor: Actor) -> str:
    if actor.is_alive:
        return "frozen" if actor.is_stopped else "at work"
    return "killed" if actor.process.returncode else "done"
