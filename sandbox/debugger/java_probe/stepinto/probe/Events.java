package stepinto.probe;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.event.*;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.FrameAt;
import stepinto.probe.stops.*;

/** What happened at one place of one thread: together it makes one stop, or none. */
final class Events {
    private final Debugging debugging;
    private final EventSet set;
    private final List<Breakpoint> due = new ArrayList<>();
    private final List<ExceptionEvent> exceptions = new ArrayList<>();
    private boolean entered;
    private boolean stepped;
    private ThreadReference thread;

    Events(Debugging debugging, EventSet set) {
        this.debugging = debugging;
        this.set = set;
    }

    /** The stop that they make; null if the program is to go on. */
    Stop handle() throws IncompatibleThreadStateException {
        for (Event event : set) {
            if (event instanceof LocatableEvent) {
                thread = ((LocatableEvent) event).thread();
            }
            take(event);
        }
        if (thread == null) {
            return null;
        }
        debugging.invoker.stoppedIn(thread, true);
        Stop stop = exceptions.isEmpty() ? null : raised();
        return stop == null ? reached() : stop;
    }

    private void take(Event event) throws IncompatibleThreadStateException {
        if (event.request() == null && event instanceof LocatableEvent) {
            return; // it was taken back while the event was on its way
        }
        if (event instanceof BreakpointEvent) {
            breakpoint((BreakpointEvent) event);
        } else if (event instanceof StepEvent) {
            StepEvent step = (StepEvent) event;
            stepped |= debugging.stepper.onStep(step.location(), debugging.notes);
        } else if (event instanceof ExceptionEvent) {
            exceptions.add((ExceptionEvent) event);
        } else if (event instanceof MethodExitEvent) {
            stepped |= debugging.stepper.returns.onExit((MethodExitEvent) event);
        } else if (event instanceof ClassPrepareEvent) {
            ReferenceType type = ((ClassPrepareEvent) event).referenceType();
            debugging.table.onPrepare(type, debugging.notes);
            debugging.entry.onPrepare(type);
            if (type.name().equals(debugging.program.target.entryClass)) {
                debugging.failures.watch();
            }
        } else if (event instanceof VMDeathEvent) {
            debugging.died = true;
            // Once the process is gone, the JDK empties the pipe at a time of its own.
            debugging.debuggee.output.drain();
            debugging.debuggee.lookForChildren();
        }
    }

    private void breakpoint(BreakpointEvent event) throws IncompatibleThreadStateException {
        Object point = event.request().getProperty(Breakpoint.PROPERTY);
        if (point != null) {
            due.add((Breakpoint) point);
        } else if (event.request().getProperty(Restarts.PROPERTY) != null) {
            debugging.table.restarts.onEvent(event);
        } else if (event.request().getProperty(Entry.PROPERTY) != null) {
            entered = true;
        } else if (event.request().getProperty(ReturnWatch.PROPERTY) != null) {
            debugging.stepper.returns.onReturnPoint(event.location());
        }
    }

    private Stop reached() {
        boolean turned = !due.isEmpty() && debugging.table.restarts.turned(thread);
        due.removeIf(point -> turned && point.function != null);
        List<Breakpoint> hit = hits(due);
        if (entered) {
            debugging.entry.reached();
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
            FrameAt top = new FrameAt(thread, 0);
            long millis = debugging.invoker.millisLeft();
            return debugging.evaluator.condition(point.condition, top, millis);
        } catch (EvaluationFailed failed) {
            debugging.notes.add(
                    "the condition of breakpoint " + point.number + " failed: "
                            + failed.getMessage());
            return true;
        }
    }

    private Stop raised() {
        ExceptionEvent event = exceptions.get(0);
        Escape escape = new Escape(event, debugging.program, debugging.handlers);
        List<Breakpoint> hit = hits(wanted(escape));
        boolean main = thread.equals(debugging.mainThread);
        boolean ending = debugging.failures.isEnding(escape, main);
        if (Failures.skips(event.exception())) {
            String message = debugging.values.message(event.exception());
            debugging.notes.add(
                    "the test was skipped" + (message == null ? "" : ": " + message));
        }
        boolean step = debugging.stepper.interestedIn(escape);
        if (!ending && hit.isEmpty() && !step) {
            debugging.failures.onCaught(escape, debugging.notes);
            return null;
        }
        Stop stop = new Stop("exception", thread);
        stop.exception = event.exception();
        stop.ending = ending;
        stop.landing = escape.passedOn;
        stop.hit.addAll(hit);
        return stop;
    }

    private List<Breakpoint> wanted(Escape escape) {
        List<Breakpoint> points = new ArrayList<>();
        for (ExceptionEvent event : exceptions) {
            Object owner = event.request().getProperty(Breakpoint.PROPERTY);
            if (owner instanceof Breakpoint) {
                Breakpoint point = (Breakpoint) owner;
                boolean program = escape.caughtByProgram() || escape.leavesProgram();
                boolean escapes = !escape.caughtByProgram() && !escape.programGoesOn();
                if (program && (escapes || !point.uncaught)) {
                    points.add(point);
                }
            }
        }
        return points;
    }
}
