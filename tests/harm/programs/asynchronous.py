"""An asyncio service: tasks, threads, subprocesses, sockets, a signal that ends it."""
import asyncio
import os
import signal
import sys


async def echo(reader, writer):
    while data := await reader.readline():
        writer.write(data.upper())
        await writer.drain()
    writer.close()


async def failing():
    await asyncio.sleep(0)
    raise RuntimeError("a task failed")


async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for word in ("hello", "world"):
        writer.write(word.encode() + b"\n")
        print(await reader.readline())
    writer.close()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('sub')", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    print(out, process.returncode)
    print(await asyncio.to_thread(lambda: os.getpid() == pid))
    loop = asyncio.get_running_loop()
    print(await loop.run_in_executor(None, sum, range(10)))
    results = await asyncio.gather(failing(), asyncio.sleep(0.01, "slept"), return_exceptions=True)
    print(results)
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.05)
    except asyncio.TimeoutError:
        print("timeout")
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
    await stop.wait()
    server.close()
    print("stopped")
    loop.call_exception_handler({"message": "just so"})


pid = os.getpid()
asyncio.run(main(), debug="--debug" in sys.argv)
