package stepinto.probe;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.VMStartEvent;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import stepinto.probe.launch.Debuggee;
import stepinto.probe.launch.Processes;
import stepinto.probe.program.ClassFiles;
import stepinto.probe.program.Sources;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Target;
import stepinto.probe.stops.BreakpointTable;
import stepinto.probe.stops.BreakpointTable.Breakpoint;
import stepinto.probe.stops.Stepper;
import stepinto.probe.threads.Diagnosis;
import stepinto.probe.wire.*;

/** One debug session: takes requests and answers each with its result. */
final class Session {
    private static final String NO_SUCH_TEST = "no_such_test";
    private static final int NO_SUCH_TEST_CODE = 2;
    private static final double LONG_PAUSE = 0.5;
    private final Wire wire;
    private volatile Debuggee debuggee;
    private volatile Debugging debugging;
    private Runner runner;
    private Actions actions;
    /** Raised if an exception stopped a step that it will end with the test. */
    private Runner.Stop toCome;

    /** What the launch asks to watch that is no expression. */
    private final List<String> notWatched = new ArrayList<>();
    private String state = "start";
    private boolean stopped;
    /** When the last stop was, and for how long the program has stood still, in nanoseconds. */
    private long stoppedAt;
    private long paused;

    Session(Wire wire) {
        this.wire = wire;
    }

    void serve() throws InterruptedException {
        while (true) {
            Request request = wire.next();
            Fields answer = outcome(request);
            boolean lists = request.action.startsWith("list");
            if (debuggee != null && (lists || state.equals("post_mortem"))) {
                debuggee.lookForChildren();
            }
            complete(answer);
            wire.answer(request, answer);
        }
    }

    private Fields outcome(Request request) throws InterruptedException {
        try {
            return carryOut(request);
        } catch (Refusal refusal) {
            return error(refusal.kind, refusal.getMessage());
        } catch (VMDisconnectedException gone) {
            return ended();
        } catch (IOException | IncompatibleThreadStateException | RuntimeException problem) {
            StringWriter trace = new StringWriter();
            problem.printStackTrace(new PrintWriter(trace));
            return error("internal", trace.toString());
        }
    }

    private static Fields error(String kind, String message) {
        Fields error = new Fields().with("kind", kind).with("message", message);
        return new Fields().with("error", error);
    }

    private Fields carryOut(Request request)
            throws Refusal, IOException, InterruptedException, IncompatibleThreadStateException {
        switch (request.action) {
            case "launch":
                return launch(request);
            case "place":
                return place(request.arguments);
            case "continue":
            case Stepper.OVER:
            case Stepper.INTO:
            case Stepper.OUT:
                return goOn(request);
            default:
                if (actions == null) {
                    throw new Refusal("not_allowed", "no program is being debugged");
                }
                // Methods of the program may run meanwhile, and write.
                debuggee.output.follow(true);
                try {
                    return actions.handle(request);
                } finally {
                    debuggee.output.follow(false);
                }
        }
    }

    private Fields launch(Request request)
            throws Refusal, IOException, InterruptedException, IncompatibleThreadStateException {
        Fields arguments = request.arguments;
        Limits limits = new Limits(arguments.fields("limits"));
        Target target = new Target(arguments.fields("target"));
        String stdin = arguments.get("stdin") == null ? "" : (String) arguments.get("stdin");
        try {
            debuggee = new Debuggee(target, stdin, limits.outputChars);
        } catch (IOException error) {
            String message = target.command.get(0) + " can't be started: " + error.getMessage();
            throw new Refusal("launch_failed", message);
        }
        VirtualMachine machine = debuggee.connect(request);
        boolean atEntry = arguments.flag("stop_at_entry");
        debugging = new Debugging(machine, debuggee, target, limits, atEntry);
        debugging.notes.addAll(target.notes);
        runner = new Runner(machine, debugging);
        actions = new Actions(debugging, limits);
        EventSet first = debugging.requests.take(request.millisLeft());
        if (first == null || !(first.iterator().next() instanceof VMStartEvent)) {
            throw new Refusal("launch_failed", "the virtual machine did not say that it started");
        }
        debugging.mainThread = ((VMStartEvent) first.iterator().next()).thread();
        runner.held = first;
        debugging.verdict.watchExits();
        debugging.requests.await(target.entryClass);
        List<?> breakpoints = (List<?>) arguments.get("breakpoints");
        for (Object wanted : breakpoints == null ? new ArrayList<>() : breakpoints) {
            try {
                debugging.table.add((Fields) wanted, debugging.notes);
            } catch (Refusal refusal) {
                debugging.notes.add("breakpoint not set: " + refusal.getMessage());
            }
        }
        for (String expression : arguments.texts("watch")) {
            try {
                BreakpointTable.checkWatched(Collections.singletonList(expression));
            } catch (Refusal refusal) {
                notWatched.add(expression);
                debugging.notes.add("not watched: " + refusal.getMessage());
            }
        }
        return run(request);
    }

    /** Where a breakpoint would be, without a program. */
    private Fields place(Fields arguments) throws Refusal {
        state = "done";
        Target target = new Target(arguments.fields("target"));
        Sources sources = new Sources(target);
        BreakpointTable table =
                new BreakpointTable(sources, new ClassFiles(target, sources), null);
        List<String> notes = new ArrayList<>();
        Breakpoint point = table.placed(arguments.fields("breakpoint"), notes);
        return new Fields()
                .with("breakpoints", table.describe(Collections.singletonList(point)))
                .with("notes", notes);
    }

    private Fields goOn(Request request)
            throws Refusal, InterruptedException, IncompatibleThreadStateException {
        if (!state.startsWith("runtime")) {
            throw new Refusal("not_allowed", "the test has ended");
        }
        paused += System.nanoTime() - stoppedAt;
        boolean step = !request.action.equals("continue");
        if (toCome != null && !(step && toCome.landing)) {
            return describe(toCome, true);
        }
        if (step && !actions.stack.isEmpty()) {
            debugging.stepper.start(request.action, actions.stack);
        } else {
            debugging.stepper.release();
        }
        return run(request);
    }

    private Fields run(Request request)
            throws InterruptedException, IncompatibleThreadStateException {
        debugging.invoker.until(request.deadline);
        debugging.values.begin();
        debuggee.output.follow(true);
        toCome = null;
        Runner.Stop stop = runner.run(request);
        if (stop == null) {
            return ended();
        }
        debugging.values.begin();
        boolean steps = !request.action.equals("continue") && !request.action.equals("launch");
        toCome = stop.ending && steps ? stop : null;
        Fields answer = describe(stop, stop.ending && !steps);
        stop.hit.clear();
        debuggee.output.follow(false);
        return answer;
    }

    private Fields describe(Runner.Stop stop, boolean ending) {
        stopped = true;
        stoppedAt = System.nanoTime();
        actions.stack = new Stack(stop.thread, debugging.program);
        boolean raised = stop.exception != null;
        state = ending ? "post_mortem" : raised ? "runtime_error" : "runtime";
        Fields answer = ending ? actions.stack(0) : new Fields();
        answer.with("stop", actions.stop(stop));
        answer.with("breakpoints", debugging.table.describe(stop.hit));
        if (stop.doing != null) {
            answer.put("kill_reason", stop.doing);
        }
        return answer;
    }

    /** The program ended by itself, or crashed. */
    private Fields ended() {
        if (debuggee == null) {
            return error("internal", "the virtual machine is gone before it was there");
        }
        state = "done";
        Integer asked = debugging == null ? null : debugging.invoker.exitCode;
        Integer code = asked == null ? debuggee.exitCode() : asked;
        Processes.killTree(debuggee.process);
        boolean inOrder = asked != null || debugging != null && debugging.died;
        boolean outOfMemory = debuggee.ranOutOfMemory();
        boolean test = debugging != null && debugging.program.target.test;
        boolean none = test && code != null && code == NO_SUCH_TEST_CODE;
        if (none && !stopped && !debugging.verdict.unfinished()) {
            state = "start";
            String said = debuggee.output.take();
            return error(NO_SUCH_TEST, said.isEmpty() ? "there is no such test" : said);
        }
        if (test && code != null && asked == null && (inOrder || Processes.signalName(code) == null)) {
            debugging.notes.addAll(debugging.verdict.notes(code));
        }
        if (test && code != null && code != 0 && paused / 1e9 >= LONG_PAUSE) {
            debugging.notes.add(String.format(Locale.ROOT,
                    "the program was paused for %.1f s in this run: a time limit in it may have"
                            + " passed because of that, and not in a run without stops",
                    paused / 1e9));
        }
        Fields stop = new Fields().with("reason", "exited").with("exit_code", code);
        Fields answer = new Fields().with("stop", stop);
        String signal = code == null || inOrder ? null : Processes.signalName(code);
        if (signal != null) {
            answer.put("signal", signal);
            answer.put("kill_reason", "crashed");
        }
        if (outOfMemory) {
            answer.put("kill_reason", "out_of_memory");
        }
        return answer;
    }

    private void complete(Fields answer) {
        answer.put("state", state);
        answer.put("not_watched", notWatched);
        if (debugging != null) {
            if (state.equals("done") || state.equals("post_mortem")) {
                debugging.table.addNeverHit(debugging.notes);
            }
            Actions.addNotes(answer, debugging.notes);
            debugging.notes.clear();
            answer.put("all_breakpoints", debugging.table.describe());
        }
        if (debuggee != null) {
            debuggee.output.putInto(answer);
            answer.put("child_processes", debuggee.hadChildren);
        }
    }

    /** The program may be out of time and grace: end it, and say so. From another thread. */
    void killLate(Request request) {
        if (System.nanoTime() < request.killAt) {
            return;
        }
        Debuggee lost = debuggee;
        // What a method run for the debugger is doing; null if none runs.
        String late = debugging == null ? null : debugging.invoker.lateReason;
        Fields answer = new Fields()
                .with("state", "done")
                .with("stop", new Fields().with("reason", "killed"))
                .with("kill_reason", late == null ? Diagnosis.NATIVE : late)
                .with("lost", problem(lost, late) + ", so the program was killed; restart it");
        if (lost != null) {
            lost.output.putInto(answer);
        }
        wire.answer(request, answer); // before the end of the program, which would be answered too
        endProgram();
    }

    private static String problem(Debuggee debuggee, String late) {
        if (Diagnosis.DEADLOCK.equals(late)) {
            return "the method that was called waits for a lock that a paused thread holds, and"
                    + " could not be ended";
        }
        if (late != null) {
            return "the method that was called did not end, not even by an error raised in it";
        }
        String state = debuggee == null ? "?" : Processes.state(Processes.pid(debuggee.process));
        boolean stopped = state.equals("T") || state.equals("t");
        return "the program's virtual machine did not answer the interrupt ("
                + (stopped ? "its process is stopped" : "process state " + state) + ")";
    }

    /** End a method that the debugger runs and that runs too long. From another thread. */
    void endLateInvocation(Request request) {
        Debugging now = debugging;
        if (now != null && now.invoker.endLate()) {
            endProgram();
        }
    }

    /** The host has hung up: leave nothing behind. From another thread. */
    void end() {
        endProgram();
        Runtime.getRuntime().halt(0);
    }

    /** End the program, wherever it is. */
    void endProgram() {
        Debuggee left = debuggee;
        if (left != null) {
            Processes.killTree(left.process);
        }
    }
}
