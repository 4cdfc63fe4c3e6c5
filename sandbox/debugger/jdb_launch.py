"""The command that starts a JVM and a jdb attached to it, in one terminal."""

from __future__ import annotations

import posixpath

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import Json
from sandbox.debugger.terminal_session import stdin_source

WAIT_FOR_PORT = """\
port=$((20000 + $$ % 30000)); hex=$(printf %04X $port); jdb=$1; input=$2; shift 2
listening() { grep -q ":$hex 0*:0000 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null; }
"""
# `quit` leaves an attached JVM running: it gets a moment to end by itself.
END_JVM = """
(sleep 1; kill -9 $jvm) </dev/null >/dev/null 2>&1 &
wait $jvm
exit $?
"""
FLAGS = "-J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -J-Xshare:auto"
AGENT = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=y,quiet=y,address=127.0.0.1:$port"
ATTACH = f"""{WAIT_FOR_PORT}java=$1; shift
"$java" {AGENT} "$@" <$input &
jvm=$!
until listening; do
    kill -0 $jvm 2>/dev/null || {{ wait $jvm; exit $?; }}
    sleep 0.01
done
"$jdb" {FLAGS} -attach 127.0.0.1:$port
{END_JVM}"""
LISTEN = f"""{WAIT_FOR_PORT}
(until listening; do sleep 0.01; done
for word; do shift; set -- "$@" "$(printf %s "$word" | sed "s/{{port}}/$port/g")"; done
exec "$@") <$input &
jvm=$!
"$jdb" {FLAGS} -connect com.sun.jdi.SocketListen:port=$port,localAddress=127.0.0.1
{END_JVM}"""


def jdb_command(sandbox: Sandbox, target: Json, stdin: str) -> Command:
    """jdb on a target: a JVM to attach to, or a build tool's own that attaches itself."""
    command = target["command"]
    plain = target["kind"] == "java"
    jdb = posixpath.join(posixpath.dirname(command[0]), "jdb") if plain else "jdb"
    script = ATTACH if plain else LISTEN
    argv = ("sh", "-c", script, "sh", jdb, stdin_source(sandbox, stdin), *command)
    return Command(argv, cwd=target["cwd"], env=target["env"])
