"""What a type checker must refuse: each line marked with the rule it breaks."""

from datetime import timedelta

from longshore import Longshore

app = Longshore()


@app.task(queue="mail")
async def send(user_id: int, subject: str = "") -> int:
    return user_id


async def main() -> None:
    await send.submit("7")  # reportArgumentType
    await send.submit(user=7)  # reportCallIssue
    await send.submit()  # reportCallIssue
    await send.submit(7, queue="mail")  # reportCallIssue
    send.spec(7, subject=8)  # reportArgumentType
    send.using(queu3="mail")  # reportCallIssue
    send.using(priority="high")  # reportArgumentType
    send.using("mail")  # reportCallIssue
    await send("7")  # reportArgumentType
    (await (await send.submit(7)).result()).upper()  # reportAttributeAccessIssue
    app.schedule("often", send.spec(7), everyy=timedelta(minutes=1))  # reportCallIssue
    app.sync.submit(send)  # reportArgumentType


@app.task(max_tries=3)  # reportCallIssue
async def misspelt() -> None: ...


@app.task(execution="fiber")  # reportArgumentType
def misplaced() -> None: ...
