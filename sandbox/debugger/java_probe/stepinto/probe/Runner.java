package stepinto.probe;

import com.sun.jdi.*;
import com.sun.jdi.event.*;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.StepRequest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Stack.FrameAt;
import stepinto.probe.stops.*;
import stepinto.probe.stops.BreakpointTable.Breakpoint;
import stepinto.probe.threads.Diagnosis;
import stepinto.probe.wire.Request;

/** Lets the program run, to its next stop, its end or the deadline. */
final class Runner {
    private static final int NUDGE_MILLIS = 100;
    private static final int TICK_MILLIS = 50;
    /** More events than can be on their way for a breakpoint that was removed. */
    private static final int MANY_EVENTS = 100;
    private final VirtualMachine machine;
    private final Debugging debugging;
    /** The events that the program is stopped at; resumed, they let it go on. */
    EventSet held;
    private boolean suspended;
    /** The exception that ends the test, once it was passed since breakpoints may follow. */
    private ObjectReference goingOn;
    /** Whether code ran for the debugger since the stop before. */
    private boolean ranCode;
    private boolean ended;

    Runner(VirtualMachine machine, Debugging debugging) {
        this.machine = machine;
        this.debugging = debugging;
    }

    /** The next stop; null if the program ended. */
    Stop run(Request request) throws InterruptedException, IncompatibleThreadStateException {
        resume();
        for (int events = 0; true; events++) {
            EventSet set = debugging.requests.late();
            boolean late = set != null;
            if (!late) {
                set = debugging.requests.next(Math.min(request.millisLeft(), TICK_MILLIS));
            }
            if (set == null || events == MANY_EVENTS) {
                debugging.requests.deleteRetired();
            }
            if (set == null && !request.isLate()) {
                continue;
            }
            if (set == null) {
                Stop stop = interrupted();
                return ended ? null : stop;
            }
            held = late ? held : set; // the program still stands where it stood
            if (ends(set)) {
                return null;
            }
            Stop stop = new Events(set).handle();
            if (stop != null) {
                if (!late && set.suspendPolicy() != EventRequest.SUSPEND_ALL) {
                    suspended = true;
                    machine.suspend();
                }
                debugging.stepper.stop();
                return stop;
            }
            resume();
        }
    }

    private static boolean ends(EventSet set) {
        for (Event event : set) {
            if (event instanceof VMDisconnectEvent) {
                return true;
            }
        }
        return false;
    }

    private void resume() {
        debugging.evaluator.resumed();
        ranCode = debugging.requests.paused();
        if (!debugging.requests.resume()) {
            return;
        }
        if (ranCode) {
            debugging.table.recheck(debugging.notes);
        }
        debugging.invoker.resuming();
        if (suspended) {
            suspended = false;
            machine.resume();
        }
        EventSet last = held;
        held = null;
        if (last != null) {
            last.resume();
        }
    }

    /** Out of time: pause the program where it is, and find out what it is doing. */
    private Stop interrupted() throws InterruptedException, IncompatibleThreadStateException {
        machine.suspend();
        suspended = true;
        debugging.stepper.stop();
        ThreadReference main = debugging.mainThread;
        ThreadReference shown = debugging.diagnosis.toShow(main);
        ArrayList<String> details = new ArrayList<>();
        String reason = debugging.diagnosis.reason(main, details);
        Stop other = nudge(shown);
        if (other != null) {
            return other;
        }
        if (details.size() > 1 || !reason.equals(Diagnosis.ENDLESS_LOOP)) {
            debugging.notes.addAll(details);
        }
        Stop stop = new Stop("interrupted", shown);
        stop.doing = reason;
        return stop;
    }

    /**
     * Methods can be run only in a thread that was stopped by an event of its own: so give it one,
     * an instruction further on. Gives another stop that came first.
     */
    private Stop nudge(ThreadReference thread)
            throws InterruptedException, IncompatibleThreadStateException {
        debugging.invoker.stoppedIn(thread, false);
        boolean runs = thread.status() == ThreadReference.THREAD_STATUS_RUNNING;
        if (!runs || thread.frameCount() == 0) {
            return null;
        }
        StepRequest step =
                debugging.requests.manager().createStepRequest(
                        thread, StepRequest.STEP_MIN, StepRequest.STEP_INTO);
        debugging.requests.enable(step);
        machine.resume();
        suspended = false;
        EventSet set = debugging.requests.take(NUDGE_MILLIS);
        debugging.requests.delete(step);
        if (set == null) {
            machine.suspend();
            suspended = true;
            return null;
        }
        held = set;
        ended = ends(set);
        if (ended) {
            return null;
        }
        if (set.size() == 1 && set.iterator().next() instanceof StepEvent) {
            debugging.invoker.stoppedIn(thread, true);
            return null;
        }
        return new Events(set).handle();
    }

    /** What happened at one place of one thread: together it makes one stop, or none. */
    private final class Events {
        private final EventSet set;
        private final List<Breakpoint> due = new ArrayList<>();
        /** Due if a loop came back to here. */
        private final List<Breakpoint> turns = new ArrayList<>();
        private final List<ExceptionEvent> exceptions = new ArrayList<>();
        private final Set<Location> places = new HashSet<>();
        private boolean entered;
        private boolean stepped;
        private ThreadReference thread;
        /** Breakpoints that may be reached after an exception that ends the test. */
        private final List<Breakpoint> after = new ArrayList<>();

        Events(EventSet set) {
            this.set = set;
        }

        /** The stop that they make; null if the program is to go on. */
        Stop handle() throws InterruptedException, IncompatibleThreadStateException {
            for (Event event : set) {
                if (event instanceof LocatableEvent) {
                    thread = ((LocatableEvent) event).thread();
                }
                take(event);
            }
            if (thread == null) {
                return null;
            }
            if (ranCode && set.suspendPolicy() == EventRequest.SUSPEND_ALL) {
                debugging.requests.holdOnce(thread);
            }
            debugging.invoker.stoppedIn(thread, true);
            Stop stop = exceptions.isEmpty() ? null : raised();
            return stop == null ? reached() : stop;
        }

        private void take(Event event) throws IncompatibleThreadStateException {
            if (event instanceof BreakpointEvent) {
                BreakpointEvent reached = (BreakpointEvent) event;
                // The set has an event for each request here that was on.
                if (places.add(reached.location())) {
                    for (BreakpointRequest request : debugging.requests.at(reached.location())) {
                        breakpoint(reached, request);
                    }
                }
            } else if (event instanceof StepEvent) {
                StepEvent step = (StepEvent) event;
                if (debugging.stepper.stepsIn(step.thread())) {
                    stepped |= debugging.stepper.onStep(step.location(), debugging.notes);
                }
            } else if (event instanceof ExceptionEvent) {
                exceptions.add((ExceptionEvent) event);
            } else if (event instanceof MethodExitEvent) {
                MethodExitEvent exit = (MethodExitEvent) event;
                boolean steps = debugging.stepper.stepsIn(exit.thread());
                stepped |= steps && debugging.stepper.returns.onExit(exit);
            } else if (event instanceof ClassPrepareEvent) {
                ReferenceType type = ((ClassPrepareEvent) event).referenceType();
                debugging.table.onPrepare(type, debugging.notes);
                debugging.test.onPrepare(type);
                debugging.timeLimits.onPrepare(type);
            } else if (event instanceof VMDeathEvent) {
                debugging.died = true;
                debugging.verdict.onDeath();
                debugging.kept.onDeath(debugging.notes);
                // Once the process is gone, the JDK empties the pipe at a time of its own.
                debugging.debuggee.output.drain();
                debugging.debuggee.lookForChildren();
            }
        }

        private void breakpoint(BreakpointEvent event, BreakpointRequest request)
                throws IncompatibleThreadStateException {
            Object point = request.getProperty(Breakpoint.PROPERTY);
            if (point != null) {
                boolean turn = request.getProperty(BreakpointTable.TURN) != null;
                (turn ? turns : due).add((Breakpoint) point);
            } else if (request.getProperty(BreakpointTable.JUMP_BACK) != null) {
                debugging.table.onJumpBack(event, request);
            } else if (request.getProperty(TestRun.ENTRY) != null) {
                entered = true;
            } else if (request.getProperty(Verdict.EXIT) != null) {
                debugging.verdict.onExit(event);
            } else if (request.getProperty(TimeLimits.PROPERTY) != null) {
                debugging.timeLimits.onSet(event, debugging.notes);
            } else if (request.getProperty(Stepper.ReturnWatch.PROPERTY) != null
                    && debugging.stepper.stepsIn(event.thread())) {
                debugging.stepper.returns.onReturnPoint(event.location());
            }
        }

        private Stop reached() {
            boolean at = !due.isEmpty() || !turns.isEmpty();
            if (at && debugging.table.turned(thread)) {
                due.removeIf(point -> point.function != null);
                due.addAll(turns);
            }
            List<Breakpoint> hit = hits(due);
            if (entered) {
                debugging.test.onEntry();
                debugging.mainThread = thread;
            }
            if (hit.isEmpty() && !entered && !stepped) {
                return null;
            }
            Stop stop = new Stop(entered ? "entry" : hit.isEmpty() ? "step" : "breakpoint", thread);
            stop.hit.addAll(hit);
            if (stepped) {
                stop.left = debugging.stepper.returns.left;
                stop.returned = debugging.stepper.returns.returned;
            }
            return stop;
        }

        /** Those whose conditions hold, or fail. */
        private List<Breakpoint> hits(List<Breakpoint> points) {
            List<Breakpoint> hit = new ArrayList<>();
            points.sort(Comparator.comparingInt(point -> point.number));
            for (Breakpoint point : points) {
                if (!point.removed && !hit.contains(point) && holds(point)) {
                    point.hits++;
                    hit.add(point);
                    if (point.temporary) {
                        debugging.table.remove(point);
                    }
                }
            }
            return hit;
        }

        private boolean holds(Breakpoint point) {
            if (point.condition == null) {
                return true;
            }
            try {
                FrameAt frame = new FrameAt(thread, 0);
                boolean holds = debugging.evaluator.condition(point.condition, frame);
                point.falseConditions += holds ? 0 : 1;
                return holds;
            } catch (EvaluationFailed failed) {
                debugging.notes.add(
                        "the condition of breakpoint " + point.number + " failed: "
                                + failed.getMessage());
                return true;
            }
        }

        private Stop raised() throws IncompatibleThreadStateException {
            ExceptionEvent event = exceptions.get(0);
            Escape escape = new Escape(
                    event, debugging.mainThread, debugging.program, debugging.handlers);
            debugging.evaluator.atException(event.exception());
            debugging.causes.onRaised(event.exception(), event.location());
            boolean main = thread.equals(debugging.mainThread);
            boolean ending = debugging.test.isEnding(escape, main);
            debugging.kept.onRaised(event.exception());
            List<Breakpoint> hit = hits(wanted(escape, ending));
            if (TestRun.skips(event.exception()) && escapes(escape)) {
                String message = debugging.values.message(event.exception());
                String note = "the test was skipped" + (message == null ? "" : ": " + message);
                if (!debugging.notes.contains(note)) {
                    debugging.notes.add(note); // the runner raises it again
                }
            }
            boolean step = debugging.stepper.interestedIn(escape);
            if (ending && runsOn(escape)) {
                ending = false;
                boolean again = event.exception().equals(goingOn);
                goingOn = event.exception();
                if (again && hit.isEmpty() && !step) {
                    return null;
                }
                boolean collects = tellRunsOn(event);
                if (collects && hit.isEmpty()) {
                    return null;
                }
                noteEnd(escape);
            } else if (!ending && hit.isEmpty() && !step) {
                debugging.test.onCaught(escape, debugging.notes);
                return null;
            }
            if (!ending && hit.stream().anyMatch(point -> point.uncaught)) {
                debugging.notes.add(escape.fate());
            }
            if (ending) {
                noteEnd(escape);
            }
            Stop stop = new Stop("exception", thread);
            stop.exception = event.exception();
            stop.raisedAt = event.location();
            stop.ending = ending;
            stop.landing = escape.passedOn;
            stop.hit.addAll(hit);
            return stop;
        }

        /** Whether it ends the test only after more breakpoints may have been reached. */
        private boolean runsOn(Escape escape) {
            after.clear();
            after.addAll(debugging.aftermath.reachable(escape));
            return !after.isEmpty();
        }

        /** Says so; whether their hits are collected. */
        private boolean tellRunsOn(ExceptionEvent event) {
            boolean collects = after.stream().anyMatch(point -> point.collects);
            Location place = new Stack(thread, debugging.program).places.get(0);
            String where = debugging.program.sources.relative(debugging.program.path(place))
                    + ":" + place.lineNumber();
            String numbers = after.stream()
                    .map(point -> Integer.toString(point.number))
                    .collect(Collectors.joining(", "));
            debugging.notes.add(collects
                    ? event.exception().referenceType().name() + ", raised at " + where
                            + ", ends the test; what runs after it was counted too"
                    : "this exception ends the test; what runs before its end, such as finally"
                            + " blocks, close() and methods after the test, may still reach"
                            + (after.size() > 1 ? " breakpoints " : " breakpoint ") + numbers);
            return collects;
        }

        private boolean escapes(Escape escape) {
            return !escape.caughtByProgram() && !escape.programGoesOn();
        }

        /** Says what the frames of an exception that ends the run do not show. */
        private void noteEnd(Escape escape) throws IncompatibleThreadStateException {
            String standIn = escape.standIn();
            if (standIn != null) {
                debugging.notes.add(standIn);
            }
            Integer invocation = TestRun.invocation(thread);
            if (invocation != null) {
                debugging.notes.add("this is invocation [" + invocation
                        + "] of the test; any after it were not run");
            }
        }

        private List<Breakpoint> wanted(Escape escape, boolean ending) {
            List<Breakpoint> points = new ArrayList<>();
            ExceptionEvent event = exceptions.get(0);
            for (Breakpoint point : debugging.table.forException(event.exception())) {
                boolean program = escape.caughtByProgram() || escape.leavesProgram();
                boolean wanted = program && (escapes(escape) || !point.uncaught);
                if (!wanted || point.thrownAgain(event)) {
                    continue;
                }
                boolean mayBeKept = point.uncaught && !ending;
                String keeper = mayBeKept ? KeptExceptions.keeper(escape) : null;
                if (keeper == null) {
                    points.add(point);
                } else if (holds(point)) {
                    debugging.kept.add(escape, keeper, point);
                }
            }
            return points;
        }
    }

    /** Why and where the program stopped. */
    static final class Stop {
        final String reason;
        final ThreadReference thread;
        /** Null if none was raised. */
        ObjectReference exception;
        /** Where it was raised this time. */
        Location raisedAt;
        /** Whether the exception has ended the test or the program. */
        boolean ending;
        /** Whether it runs a finally block of the program's own before it ends anything. */
        boolean landing;
        /** The function just left, and what it returned; null if that is unknown. */
        String left;
        Value returned;
        /** What an interrupted program was at, as a kill reason; null otherwise. */
        String doing;
        final List<Breakpoint> hit = new ArrayList<>();

        Stop(String reason, ThreadReference thread) {
            this.reason = reason;
            this.thread = thread;
        }
    }
}
