package stepinto.probe;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.VMStartEvent;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.launch.Debuggee;
import stepinto.probe.launch.Machines;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Target;
import stepinto.probe.stops.Stepper;
import stepinto.probe.wire.Answers;
import stepinto.probe.wire.Limits;
import stepinto.probe.wire.Refusal;
import stepinto.probe.wire.Request;
import stepinto.probe.wire.Wire;

/** One debug session: takes requests and answers each with its result. */
final class Session {
    private static final String NO_SUCH_TEST = "no_such_test";
    private static final int NO_SUCH_TEST_CODE = 2;
    private final Wire wire;
    private final Machines machines;
    private volatile Debuggee debuggee;
    private volatile Debugging debugging;
    private Runner runner;
    private Actions actions;
    private Describer describer;
    private Stack stack;
    /** Raised if an exception stopped a step that it will end with the test. */
    private Stop toCome;

    private String state = "start";
    private boolean stopped;

    Session(Wire wire, Machines machines) {
        this.wire = wire;
        this.machines = machines;
    }

    /** Serve requests forever. */
    void serve() throws InterruptedException {
        while (true) {
            Request request = wire.next();
            wire.answer(request, answer(request));
        }
    }

    /** The answer to one request, whatever goes wrong. */
    Map<String, Object> answer(Request request) throws InterruptedException {
        Map<String, Object> answer = outcome(request);
        boolean lists = request.action.startsWith("list");
        if (debuggee != null && (lists || state.equals("post_mortem"))) {
            debuggee.lookForChildren();
        }
        complete(answer);
        return answer;
    }

    private Map<String, Object> outcome(Request request) throws InterruptedException {
        try {
            return carryOut(request);
        } catch (Refusal refusal) {
            return Answers.error(refusal.kind, refusal.getMessage());
        } catch (VMDisconnectedException gone) {
            return ended();
        } catch (IOException | IncompatibleThreadStateException | RuntimeException error) {
            return Answers.failure(error);
        }
    }

    private Map<String, Object> carryOut(Request request)
            throws Refusal, IOException, InterruptedException, IncompatibleThreadStateException {
        switch (request.action) {
            case "launch":
                return launch(request);
            case "continue":
            case Stepper.OVER:
            case Stepper.INTO:
            case Stepper.OUT:
                return goOn(request);
            default:
                if (actions == null) {
                    throw new Refusal("not_allowed", "no program is being debugged");
                }
                return look(request);
        }
    }

    /** Methods of the program may run meanwhile, and write. */
    private Map<String, Object> look(Request request) throws Refusal {
        debuggee.output.follow(true);
        try {
            return actions.handle(request);
        } finally {
            debuggee.output.follow(false);
        }
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> launch(Request request)
            throws Refusal, IOException, InterruptedException, IncompatibleThreadStateException {
        Map<String, Object> arguments = request.arguments;
        Limits limits = new Limits((Map<String, Object>) arguments.get("limits"));
        Target target = new Target((Map<String, Object>) arguments.get("target"));
        String stdin = arguments.get("stdin") == null ? "" : (String) arguments.get("stdin");
        debuggee = start(target, stdin, limits);
        VirtualMachine machine = debuggee.connect(machines, request);
        boolean atEntry = Boolean.TRUE.equals(arguments.get("stop_at_entry"));
        debugging = new Debugging(machine, debuggee, target, limits, atEntry);
        runner = new Runner(machine, debugging);
        describer =
                new Describer(debugging.program, debugging.table, debugging.values, limits);
        actions = new Actions(debugging, describer, limits);
        awaitStart(request);
        prepare((List<Object>) arguments.get("breakpoints"));
        return run(request);
    }

    private static Debuggee start(Target target, String stdin, Limits limits) throws Refusal {
        try {
            return new Debuggee(target, stdin, limits.outputChars);
        } catch (IOException error) {
            String message = target.command.get(0) + " can't be started: " + error.getMessage();
            throw new Refusal("launch_failed", message);
        }
    }

    private void awaitStart(Request request) throws InterruptedException, Refusal {
        EventSet first = debugging.events.take(request.millisLeft());
        if (first == null || !(first.iterator().next() instanceof VMStartEvent)) {
            throw new Refusal("launch_failed", "the virtual machine did not say that it started");
        }
        debugging.mainThread = ((VMStartEvent) first.iterator().next()).thread();
        runner.hold(first);
    }

    @SuppressWarnings("unchecked")
    private void prepare(List<Object> breakpoints) {
        debugging.requests.await(debugging.program.target.entryClass);
        for (Object wanted : breakpoints == null ? new ArrayList<>() : breakpoints) {
            try {
                debugging.table.add((Map<String, Object>) wanted, debugging.notes);
            } catch (Refusal refusal) {
                debugging.notes.add("breakpoint not set: " + refusal.getMessage());
            }
        }
    }

    private Map<String, Object> goOn(Request request)
            throws Refusal, InterruptedException, IncompatibleThreadStateException {
        if (!state.startsWith("runtime")) {
            throw new Refusal("not_allowed", "the test has ended");
        }
        boolean step = !request.action.equals("continue");
        if (toCome != null && !(step && toCome.landing)) {
            return describe(toCome);
        }
        if (step && !stack.isEmpty()) {
            debugging.stepper.start(request.action, stack);
        } else {
            debugging.stepper.release();
        }
        return run(request);
    }

    private Map<String, Object> run(Request request)
            throws InterruptedException, IncompatibleThreadStateException {
        debugging.invoker.until(request.deadline);
        debugging.values.begin();
        debuggee.output.follow(true);
        toCome = null;
        Stop stop = runner.run(request);
        if (stop == null) {
            return ended();
        }
        debugging.values.begin();
        boolean steps = !request.action.equals("continue") && !request.action.equals("launch");
        if (stop.ending && steps) {
            toCome = stop.again();
            stop.ending = false;
        }
        Map<String, Object> answer = describe(stop);
        debuggee.output.follow(false);
        return answer;
    }

    private Map<String, Object> describe(Stop stop) {
        stopped = true;
        describer.mainIs(debugging.mainThread);
        stack = new Stack(stop.thread, debugging.program);
        actions.stoppedAt(stack);
        boolean raised = stop.exception != null;
        state = stop.ending ? "post_mortem" : raised ? "runtime_error" : "runtime";
        Map<String, Object> answer =
                stop.ending ? describer.stack(stack, 0) : new LinkedHashMap<String, Object>();
        answer.put("stop", describer.stop(stop, stack));
        answer.put("breakpoints", debugging.table.describe(stop.hit));
        if (stop.doing != null) {
            answer.put("kill_reason", stop.doing);
        }
        return answer;
    }

    private Map<String, Object> ended() {
        if (debuggee == null) {
            return Answers.error("internal", "the virtual machine is gone before it was there");
        }
        state = "done";
        boolean died = debugging != null && debugging.died;
        Integer asked = debugging == null ? null : debugging.invoker.exitCode();
        Integer code = asked == null ? debuggee.exitCode() : asked;
        Map<String, Object> answer = Ending.of(debuggee, code, died || asked != null);
        boolean test = debugging != null && debugging.program.target.test;
        if (test && !stopped && code != null && code == NO_SUCH_TEST_CODE) {
            state = "start";
            debuggee.output.putInto(answer);
            Object said = answer.remove("output");
            String text = said == null ? "there is no such test" : said.toString();
            return Answers.error(NO_SUCH_TEST, text);
        }
        return answer;
    }

    /** What every answer has. */
    private void complete(Map<String, Object> answer) {
        answer.put("state", state);
        if (debugging != null) {
            Answers.addNotes(answer, debugging.notes);
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
        String late = debugging == null ? null : debugging.invoker.lateReason();
        Map<String, Object> answer = Ending.killed(lost, late);
        if (lost != null) {
            lost.output.putInto(answer);
        }
        wire.answer(request, answer); // before the end of the program, which would be answered too
        endProgram();
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
            left.kill();
        }
    }
}
