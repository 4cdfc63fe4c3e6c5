"""The MCP server: a client's tools, its calls in turn, and how clients reach it."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any, TypeVar

import mcp_types as types
import uvicorn
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collect.agents.debug2fix import DebugSubagent
from collect.agents.debug_tools import Inspect
from collect.agents.tools import ToolReply
from collect.errors import ConfigError, RolloutStopped
from collect.live.environment import SetEnvironment
from collect.live.session import LiveSession, Ongoing, Report, Workplace
from collect.store.messages import ToolCall
from collect.store.records import ToolOutcome, code_version

if TYPE_CHECKING:
    from collect.live.recording import Recording

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
Context = ServerRequestContext[Any, Any]
READ_ONLY = (DebugSubagent.name, Inspect.name)
"""The tools that change neither files nor the client's debug session."""
MOST_WAITING = 8
"""Calls of one client that wait for their turn; more are refused."""
IDLE_SECONDS, GONE_SECONDS = 600.0, 10.0
"""An HTTP client has gone if it has sent nothing for the first, or for the second after its event
stream was cut, or it has only said hello."""
MOST_CLIENTS = 64
"""HTTP clients at once."""
INSTRUCTIONS = """\
StepInto runs a test of the user's repository under a debugger, in a sandbox, on a copy of the \
files. Use it when a runtime value decides: what a variable holds at a line, which branch is \
taken, where a wrong value first appears. Where reading the source is enough, read it. {tools} \
Name a test by its runner's id; after edits, start again or ask again. If a start shows that the \
tests lack a package, an option or a variable, set it with `debug_environment`."""
WITH_SUBAGENT = (
    "`debug_subagent` answers one question about facts, with evidence; it fixes nothing."
)
WITHOUT_SUBAGENT = (
    "No model is configured, so there is no debug subagent, only the debug tools: begin with "
    "`debug_start_session`."
)


def skill() -> str:
    """The skill file: when and how to ask."""
    return (resources("collect.live") / "SKILL.md").read_text(encoding="utf-8")


def in_thread(function: Callable[[], Result]) -> Future[Result]:
    """Call it in a thread that does not keep the process alive."""
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # so that nobody who waits can cancel it

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # passed to who waits
            future.set_exception(error)

    threading.Thread(target=call, name="live-call", daemon=True).start()
    return future


class Client:
    """One client session. Its calls have their turn in order, in at most one thread."""

    def __init__(self, session: LiveSession) -> None:
        self._session, self._turn = session, asyncio.Lock()
        self._waiting = 0
        self._running: Future[ToolReply] | None = None

    async def call(self, call: ToolCall, report: Report, seconds: float) -> ToolReply:
        """A call's answer. If the client cancels it, it ends, and others are not affected."""
        if self._waiting > MOST_WAITING:
            told = f"{MOST_WAITING} of your calls wait for their turn: wait for their answers first"
            return ToolReply(f"Error: {told}.", ToolOutcome.REFUSED)
        self._waiting += 1
        try:
            async with self._turn:
                # The program of a cancelled call still runs.
                while self._running is not None and not self._running.done():
                    await asyncio.wrap_future(in_thread(self._session.interrupt))
                    await asyncio.sleep(0.02)
                ongoing = Ongoing(report, seconds)
                self._running = in_thread(partial(self._session.call, call, ongoing))
                try:
                    return await asyncio.shield(asyncio.wrap_future(self._running))
                except asyncio.CancelledError:
                    in_thread(ongoing.end)
                    raise
        except RolloutStopped as stopped:
            return ToolReply(f"Error: {stopped}.", ToolOutcome.ERROR)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End its calls, processes and sandboxes, and keep its record. Blocks."""
        self._session.close()
        try:
            if self._running is not None:
                self._running.exception()
            self._session.finish()
        except Exception as error:  # the client has gone, and others go on
            logger.warning(f"a client's session could not be kept to its end: {error}")


@dataclass
class LiveServer:
    """The clients of one repository."""

    place: Workplace
    recording: Recording | None = None
    _clients: dict[str, Client] = field(default_factory=dict)
    """By session id, which is empty over stdio."""
    _leaving: list[Future[None]] = field(default_factory=list)

    def mcp(self) -> Server[Any]:
        """The server of the protocol."""
        offered = self.place.subagent is not None
        return Server(
            "stepinto",
            version=code_version(),
            instructions=INSTRUCTIONS.format(tools=WITH_SUBAGENT if offered else WITHOUT_SUBAGENT),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    def client(self, session_id: str, name: str) -> Client:
        """The client of a session; another one if it had gone."""
        if session_id not in self._clients:
            record = self.recording.client(name) if self.recording is not None else None
            self._clients[session_id] = Client(LiveSession(self.place, record))
        return self._clients[session_id]

    def leave(self, session_id: str) -> None:
        """End a client's session."""
        client = self._clients.pop(session_id, None)
        if client is not None:
            self._leaving.append(in_thread(client.close))

    async def close(self) -> None:
        """End every client's session, and wait until nothing is left."""
        for session_id in [*self._clients]:
            self.leave(session_id)
        for leaving in self._leaving:
            await asyncio.wrap_future(leaving)

    # Requests.

    @cached_property
    def _functions(self) -> dict[str, dict[str, Any]]:
        """The tools' schemas by name, the same for all clients."""
        schemas = LiveSession(self.place).schemas
        return {each["function"]["name"]: each["function"] for each in schemas}

    async def _list_tools(self, context: Context, parameters: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*map(self._tool, self._functions.values())])

    def _tool(self, function: dict[str, Any]) -> types.Tool:
        """A tool in the words of training, and what a client needs to know besides."""
        limits, name = self.place.runtime.agents.debugger, function["name"]
        times = {
            "debug_subagent": f"An answer takes at most {self.place.answer_seconds:g} s.",
            "debug_start_session": f"The first stop must come within {limits.start_timeout:g} s.",
            SetEnvironment.name: "It affects no other client.",
        }
        each = f"Takes at most {limits.action_timeout:g} s; then the program is interrupted."
        told = f"{function['description']} {times.get(name, each)}"
        # All happens on a copy; a model may be an outside service.
        hints = types.ToolAnnotations(
            read_only_hint=name in READ_ONLY,
            destructive_hint=False,
            open_world_hint=name == DebugSubagent.name,
        )
        schema = function["parameters"]
        return types.Tool(name=name, description=told, input_schema=schema, annotations=hints)

    async def _call_tool(
        self, context: Context, parameters: types.CallToolRequestParams
    ) -> types.CallToolResult:
        reply = await self._reply(context, parameters)
        wrong = reply.outcome is not ToolOutcome.OK
        return types.CallToolResult(
            content=[types.TextContent(text=reply.with_notes)], is_error=wrong
        )

    async def _reply(self, context: Context, parameters: types.CallToolRequestParams) -> ToolReply:
        given = parameters.arguments or {}
        function = self._functions.get(parameters.name)
        if function is None:
            told = (
                f"there is no tool {parameters.name}; the tools are: {', '.join(self._functions)}"
            )
            return ToolReply(f"Error: {told}.", ToolOutcome.INVALID)
        if wrong := wrong_arguments(function["parameters"], given):
            told = f"the arguments of {parameters.name} are wrong: {wrong}"
            return ToolReply(f"Error: {told}.", ToolOutcome.INVALID)
        told_by = context.session.client_params
        name = told_by.client_info.name if told_by is not None else "unknown client"
        request = context.request
        session_id = request.headers.get("mcp-session-id", "") if request is not None else ""
        call = ToolCall(f"call_{context.request_id}", parameters.name, json.dumps(given))
        report, seconds = self._report_to(context), self.place.answer_seconds
        return await self.client(session_id, name).call(call, report, seconds)

    def _report_to(self, context: Context) -> Report:
        loop = asyncio.get_running_loop()

        def report(step: int, most: int, what: str) -> None:
            told = context.session.report_progress(step, most, f"step {step} of {most}: {what}")
            asyncio.run_coroutine_threadsafe(told, loop)

        return report


def wrong_arguments(schema: dict[str, Any], given: dict[str, Any]) -> str | None:
    """What is wrong with a call's arguments, in JSON's words."""
    error = best_match(Draft202012Validator(schema).iter_errors(given))
    return None if error is None else f"{error.json_path}: {error.message}"


# How clients reach it.


def serve_stdio(live: LiveServer) -> None:
    """Serve the one client at the other end of this process's stdin and stdout, until it leaves."""

    async def serve() -> None:
        server, task = live.mcp(), asyncio.current_task()
        assert task is not None
        # Clients send SIGTERM a moment after they close stdin: a record may take longer.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            async with stdio_server() as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # an answer came after the client had gone
        finally:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
            await live.close()

    with suppress(asyncio.CancelledError):
        asyncio.run(serve())


@dataclass(frozen=True)
class Address:
    """Where an HTTP server listens."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Address:
        """Of HOST:PORT. Raises ConfigError."""
        host, _, port = text.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"--http {text}: give HOST:PORT, such as 127.0.0.1:8765")
        if host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"--http {text}: give the one address by which clients reach this machine: a "
                "request that names another is refused, so that no web page can send any"
            )
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def security(self, port: int) -> TransportSecuritySettings:
        """The hosts and origins that a request may name."""
        names = ["127.0.0.1", "localhost", "::1"] if self.is_loopback else [self.host]
        hosts = [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names]
        return TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        )


def serve_http(live: LiveServer, address: Address, token: str | None) -> None:
    """Serve any number of clients by streamable HTTP. Raises ConfigError."""
    if token is None and not address.is_loopback:
        raise ConfigError(
            f"--http {address.host}: other machines reach this address, so clients must have a "
            "token: put one into a file for --token-file, or into $STEPINTO_MCP_TOKEN"
        )
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ConfigError(f"--http {address.host}:{address.port}: {error}; take another") from error
    port = listening.getsockname()[1]
    app = live.mcp().streamable_http_app(
        transport_security=address.security(port), max_sessions=MOST_CLIENTS
    )
    config = uvicorn.Config(
        Gate(app, live, token), log_level="warning", timeout_graceful_shutdown=2
    )

    # uvicorn stops at a signal, then raises it again: that must not end the process before `close`.
    for stopping in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stopping, lambda *_: None)

    async def serve() -> None:
        shown = f"[{address.host}]" if ":" in address.host else address.host
        logger.info(f"listening on http://{shown}:{port}/mcp")
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # who is impatient may end it
            await live.close()

    asyncio.run(serve())


@dataclass
class _Presence:
    """What shows that an HTTP client is there."""

    requests: int = 0
    """Under way, its event stream included."""
    had_stream: bool = False
    leaving: asyncio.TimerHandle | None = None


@dataclass
class Gate:
    """Lets requests through that may enter, and notices when a client has gone: of the protocol
    only stdio says so."""

    app: ASGIApp
    live: LiveServer
    token: str | None
    _present: dict[str, _Presence] = field(default_factory=dict)
    _ending: set[asyncio.Future[None]] = field(default_factory=set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif (refusal := self._refusal(headers)) is not None:
            await refusal(scope, receive, send)
        elif (session_id := _session_id(headers)) not in self._present:
            await self._open(scope, receive, send)
        else:
            presence = self._enter(session_id)
            try:
                await self.app(scope, receive, send)
            finally:
                presence.had_stream |= scope["method"] == "GET"
                wait = GONE_SECONDS if presence.had_stream else IDLE_SECONDS
                self._exit(session_id, presence, scope, wait)

    def _refusal(self, headers: dict[bytes, bytes]) -> JSONResponse | None:
        given = headers.get(b"authorization", b"")
        if self.token is not None and not hmac.compare_digest(
            given, f"Bearer {self.token}".encode()
        ):
            return JSONResponse({"error": "the token is missing or wrong"}, 401)
        version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        if version in ("", *HANDSHAKE_PROTOCOL_VERSIONS):
            return None
        # Later revisions have no sessions, which a debugger needs: clients fall back to these.
        data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": version}
        error = {
            "code": types.UNSUPPORTED_PROTOCOL_VERSION,
            "message": "debug sessions need a revision with sessions",
            "data": data,
        }
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request of no known session through, which the SDK refuses if it names one, and
        expect the client of the one that it begins."""

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun = _session_id(dict(message.get("headers", ())))
                if begun:
                    self._exit(begun, self._enter(begun), scope, GONE_SECONDS)
            await send(message)

        await self.app(scope, receive, watch)

    def _enter(self, session_id: str) -> _Presence:
        presence = self._present.setdefault(session_id, _Presence())
        presence.requests += 1
        if presence.leaving is not None:
            presence.leaving.cancel()
        return presence

    def _exit(self, session_id: str, presence: _Presence, scope: Scope, wait: float) -> None:
        """A request has ended; if nothing comes for so many seconds, the client has gone."""
        presence.requests -= 1
        if scope["method"] == "DELETE":
            self._leave(session_id)
        elif not presence.requests:
            loop = asyncio.get_running_loop()
            presence.leaving = loop.call_later(wait, self._gone, session_id, scope)

    def _gone(self, session_id: str, scope: Scope) -> None:
        """End the SDK's session as its client would have: other clients need the place."""

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        async def send(message: Message) -> None:
            pass

        headers = [*scope["headers"], (b"mcp-session-id", session_id.encode("latin-1"))]
        farewell = {**scope, "method": "DELETE", "headers": headers}
        ending = asyncio.ensure_future(self.app(farewell, receive, send))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        self._leave(session_id)

    def _leave(self, session_id: str) -> None:
        self._present.pop(session_id, None)
        self.live.leave(session_id)


def _session_id(headers: dict[bytes, bytes]) -> str:
    return headers.get(b"mcp-session-id", b"").decode("latin-1")
