package stepinto.probe.stops;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.Location;
import com.sun.jdi.Method;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.request.ExceptionRequest;
import com.sun.jdi.request.StepRequest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.program.FrameAt;
import stepinto.probe.program.Program;
import stepinto.probe.program.ReturnPoints;
import stepinto.probe.program.Stack;
import stepinto.probe.threads.Requests;

/**
 * Takes one step through the program's own code, whatever lies between.
 *
 * <p>Depths count frames from the outermost, which is 1. The virtual machine's own filters are used
 * only within calls of foreign code: elsewhere they would hide that the step has left the program.
 */
public final class Stepper {
    private enum Phase {
        IDLE,
        /** On to the next line. */
        LINE,
        /** In foreign code that was called; on to own code. */
        THROUGH,
        /** Out of frames, until the goal is on top. */
        LEAVING
    }

    public static final String OVER = "step_over";
    public static final String INTO = "step_into";
    public static final String OUT = "step_out";
    private static final int MANY_EXCEPTIONS = 500;
    public final ReturnWatch returns;
    private final Program program;
    private final Requests requests;
    private final Foreign foreign;
    private final Set<Method> methods = new HashSet<>();
    private Phase phase = Phase.IDLE;
    private String action;
    private ThreadReference thread;
    /** The function that the step began in. */
    private String from;
    private int base;
    private int baseLine;
    private boolean library;
    private int goal;
    /** Whether nothing foreign was left on the way out. */
    private boolean direct;
    private StepRequest request;
    /** Stays from one step to the next. */
    private ExceptionRequest exceptions;
    private ThreadReference watched;
    private int exceptionsSeen;

    public Stepper(Program program, Requests requests) {
        this.program = program;
        this.requests = requests;
        foreign = new Foreign(program.target);
        returns = new ReturnWatch(requests, new ReturnPoints());
    }

    /** Begin a step from the innermost frame that is shown. */
    public void start(String wanted, Stack stack) throws IncompatibleThreadStateException {
        thread = stack.thread;
        action = wanted;
        FrameAt top = stack.frames.get(0);
        Location place = stack.places.get(0);
        library = !program.owns(place);
        direct = true;
        from = Program.function(place);
        base = thread.frameCount() - top.index;
        baseLine = place.lineNumber();
        returns.forget();
        if (action.equals(OUT)) {
            returns.watch(thread, base, place, false);
            leave(base - 1);
            return;
        }
        watchExceptions(stack);
        returns.watch(thread, base, place, true);
        if (top.index > 0) {
            leave(base);
        } else {
            line();
        }
    }

    private void watchExceptions(Stack stack) {
        methods.clear();
        for (Location place : stack.places) {
            methods.add(place.method());
        }
        exceptionsSeen = 0;
        if (exceptions != null && watched.equals(thread)) {
            return;
        }
        release();
        watched = thread;
        exceptions = requests.manager().createExceptionRequest(null, true, true);
        exceptions.addThreadFilter(thread);
        requests.enable(exceptions);
    }

    /** The step is over, or another stop came first. */
    public void stop() {
        drop();
        returns.stop();
        phase = Phase.IDLE;
    }

    /** No step is likely to follow: stop watching for exceptions. */
    public void release() {
        if (exceptions != null) {
            requests.delete(exceptions);
            exceptions = null;
        }
    }

    private void drop() {
        if (request != null) {
            requests.delete(request);
            request = null;
        }
    }

    private void arm(Phase next, int depth, Iterable<String> leftOut) {
        drop();
        phase = next;
        request = requests.manager().createStepRequest(thread, StepRequest.STEP_LINE, depth);
        for (String pattern : leftOut) {
            request.addClassExclusionFilter(pattern);
        }
        requests.enable(request);
    }

    private void line() {
        int depth = action.equals(INTO) ? StepRequest.STEP_INTO : StepRequest.STEP_OVER;
        arm(Phase.LINE, depth, new ArrayList<>());
    }

    private void leave(int to) {
        goal = to;
        arm(Phase.LEAVING, StepRequest.STEP_OUT, new ArrayList<>());
    }

    private void through() {
        arm(Phase.THROUGH, StepRequest.STEP_INTO, foreign.patterns());
    }

    /** The virtual machine has stepped: whether the step ends here. Notes say if it can't. */
    public boolean onStep(Location place, List<String> notes)
            throws IncompatibleThreadStateException {
        int depth = thread.frameCount();
        returns.onStep();
        if (phase == Phase.LEAVING && depth > goal) {
            leave(goal);
            return false;
        }
        // At its end a thread runs code of the JDK in place of its outermost frame.
        boolean gone = depth == base && !stepsIn(place);
        if (phase == Phase.LEAVING || depth < base || gone) {
            return landed(depth, place, notes);
        }
        if (depth == base) {
            boolean midway = phase == Phase.THROUGH && place.lineNumber() == baseLine;
            if (midway) {
                line();
            }
            return !midway;
        }
        return deeper(place);
    }

    /** In a call that the step has entered. */
    private boolean deeper(Location place) {
        if (stepsIn(place)) {
            return true;
        }
        if (program.owns(place)) {
            line();
        } else {
            foreign.learn(place.declaringType().name());
            through();
        }
        return false;
    }

    /** Back in a caller. */
    private boolean landed(int depth, Location place, List<String> notes)
            throws IncompatibleThreadStateException {
        if (stepsIn(place)) {
            boolean returned = depth == base && !action.equals(OUT);
            if (returned && place.lineNumber() == baseLine) {
                line();
                return false;
            }
            if (direct || beginsLine(place)) {
                return true;
            }
            action = OVER;
            direct = true;
            base = depth;
            baseLine = place.lineNumber();
            line();
            return false;
        }
        direct = false;
        return outOfForeign(depth, notes);
    }

    private boolean outOfForeign(int depth, List<String> notes) {
        int index = innermost();
        if (index >= 0) {
            leave(depth - index);
            return false;
        }
        stop();
        notes.add(from + " ended and has no caller in the program, so the program ran on");
        return false;
    }

    /** The index of the innermost frame that a step may end in; -1 where there is none. */
    private int innermost() {
        List<Location> places = Stack.places(thread);
        for (int index = 0; index < places.size(); index++) {
            if (stepsIn(places.get(index))) {
                return index;
            }
        }
        return -1;
    }

    private static boolean beginsLine(Location place) {
        try {
            return place.method().locationsOfLine(place.lineNumber()).contains(place);
        } catch (AbsentInformationException absent) {
            return false;
        }
    }

    private boolean stepsIn(Location place) {
        boolean mine = program.owns(place) || library;
        return mine && place.lineNumber() > 0 && program.shows(place);
    }

    /** Whether an exception in the step's thread leaves or enters the frame it began in. */
    public boolean interestedIn(Escape escape) {
        if (phase == Phase.IDLE || exceptions == null || !escape.thread.equals(thread)) {
            return false;
        }
        if (++exceptionsSeen > MANY_EXCEPTIONS) {
            requests.delete(exceptions);
            exceptions = null;
            return false;
        }
        // A test runner raises an exception of its own for that of the test: no place to stop at.
        boolean leaves = !escape.caughtOutside(methods) && escape.catchDepth() <= base;
        return leaves && innermost() >= 0;
    }
}
