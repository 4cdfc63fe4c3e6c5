package stepinto.probe.stops;

import com.sun.jdi.*;
import com.sun.jdi.event.MethodExitEvent;
import com.sun.jdi.request.*;
import java.io.File;
import java.util.*;
import java.util.stream.Stream;
import stepinto.probe.program.ByteCode;
import stepinto.probe.program.Stack.FrameAt;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;
import stepinto.probe.program.TypeNames;
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
    public final ReturnWatch returns = new ReturnWatch();
    private final Program program;
    private final Requests requests;
    /** The classes that a step runs through without a stop, as patterns of JDI. */
    private final Set<String> foreign = new LinkedHashSet<>();
    private final Set<Method> methods = new HashSet<>();
    private Phase phase = Phase.IDLE;
    private String action;
    private ThreadReference thread;
    /** The function that the step began in. */
    private String from;
    private int base;
    private int baseLine;
    /** Where branches of the step's line have met; null if none have. */
    private Location joined;
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
        Stream.concat(TypeNames.PLATFORM.stream(), Program.RUNNERS.stream())
                .filter(prefix -> program.target.classRoots.stream()
                        .noneMatch(root -> new File(root, prefix.replace('.', '/')).exists()))
                .forEach(prefix -> foreign.add(prefix + "*"));
    }

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
        joined = null;
        returns.forget();
        if (action.equals(OUT)) {
            returns.watch(thread, base, place, false);
            leave(base - 1);
            return;
        }
        methods.clear();
        for (Location each : stack.places) {
            methods.add(each.method());
        }
        exceptionsSeen = 0;
        if (exceptions == null || !watched.equals(thread)) {
            release();
            watched = thread;
            exceptions = requests.manager().createExceptionRequest(null, true, true);
            exceptions.addThreadFilter(thread);
            requests.enable(exceptions);
        }
        returns.watch(thread, base, place, true);
        if (top.index > 0) {
            leave(base);
        } else {
            line();
        }
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

    /** Whether a step is under way in a thread: an event of an earlier one may still come. */
    public boolean stepsIn(ThreadReference stepping) {
        return phase != Phase.IDLE && stepping.equals(thread);
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
        if (depth == base && phase == Phase.LINE && joins(place)) {
            joined = place;
            returns.watch(thread, base, place, true);
            line();
            return false;
        }
        if (depth == base) {
            boolean goesOn = joined != null && joined.codeIndex() < place.codeIndex();
            boolean midway = (phase == Phase.THROUGH || goesOn) && place.lineNumber() == baseLine;
            if (midway) {
                line();
            }
            return !midway;
        }
        if (action.equals(OVER)) {
            // A condition that called a method there: the virtual machine forgets where it stepped.
            leave(base);
            return false;
        }
        if (stepsIn(place)) {
            return true; // in a call that the step has entered
        }
        if (program.owns(place)) {
            line();
        } else {
            through(place);
        }
        return false;
    }

    /**
     * Whether the step's line jumps to where the branches of an expression meet: compilers give
     * that the line of the last branch, which has not been executed.
     */
    private boolean joins(Location place) {
        Method method = place.method();
        try {
            if (method.locationsOfLine(place.lineNumber()).contains(place)) {
                return false;
            }
        } catch (AbsentInformationException absent) {
            return false;
        }
        for (Map.Entry<Integer, Integer> jump : new ByteCode(method).jumpsOn.entrySet()) {
            int line = method.locationOfCodeIndex(jump.getKey()).lineNumber();
            boolean own = line == baseLine || joined != null && line == joined.lineNumber();
            if (own && jump.getValue() == place.codeIndex()) {
                return true;
            }
        }
        return false;
    }

    private void through(Location place) {
        String type = place.declaringType().name();
        if (type.indexOf('/') < 0) {
            foreign.add(type);
        }
        arm(Phase.THROUGH, StepRequest.STEP_INTO, foreign);
    }

    private boolean landed(int depth, Location place, List<String> notes)
            throws IncompatibleThreadStateException {
        if (stepsIn(place)) {
            boolean returned = depth == base && !action.equals(OUT);
            if (returned && place.lineNumber() == baseLine) {
                line();
                return false;
            }
            try {
                if (direct || place.method().locationsOfLine(place.lineNumber()).contains(place)) {
                    boolean same = depth < base && from.equals(Program.function(place));
                    if (same && returns.left == null) {
                        notes.add(from + " was left; this is an outer call of it");
                    }
                    return true;
                }
            } catch (AbsentInformationException absent) {
                direct = false; // it can't be told to begin a line
            }
            // The rest of the line may call more of the program's own.
            action = action.equals(INTO) ? INTO : OVER;
            direct = true;
            base = depth;
            baseLine = place.lineNumber();
            joined = null;
            line();
            return false;
        }
        direct = false;
        int index = innermost();
        if (index >= 0 && action.equals(INTO)) {
            // What was left may call more of the program's own, as a stream does.
            base = depth - index;
            baseLine = Stack.places(thread).get(index).lineNumber();
            joined = null;
            through(place);
        } else if (index >= 0) {
            leave(depth - index);
        } else {
            stop();
            notes.add(from + " ended and no caller in the program goes on, so the program ran on");
        }
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

    private boolean stepsIn(Location place) {
        boolean mine = program.owns(place) || library;
        return mine && place.lineNumber() > 0 && program.shows(place);
    }

    /** Whether an exception leaves or enters the frame that a step over or into began in. */
    public boolean interestedIn(Escape escape) {
        boolean looks = phase != Phase.IDLE && !action.equals(OUT) && exceptions != null;
        if (!looks || !escape.thread.equals(thread)) {
            return false;
        }
        if (++exceptionsSeen > MANY_EXCEPTIONS) {
            release();
            return false;
        }
        // A test runner raises an exception of its own for that of the test: no place to stop at.
        boolean leaves = !escape.caughtOutside(methods) && escape.catchDepth() <= base;
        return leaves && innermost() >= 0;
    }

    /**
     * Learns what one frame returns.
     *
     * <p>An event for every method's exit slows a program down a hundredfold, so it is requested
     * only once the frame stands at an instruction that returns.
     */
    public final class ReturnWatch {
        public static final String PROPERTY = "stepinto.return";

        /** So many returns of deeper calls of the same method are looked at, at most. */
        private static final int MANY = 60;

        /** The method that returned; null while unknown. */
        public String left;

        public Value returned;
        /** Where methods return a value. */
        private final Map<Method, List<Location>> points = new HashMap<>();
        private final List<EventRequest> watching = new ArrayList<>();
        private ThreadReference thread;
        private int depth;
        private int looked;

        /** Watch the frame of that depth; if {@code lineOnly}, only while it stays on its line. */
        void watch(ThreadReference inThread, int ofDepth, Location place, boolean lineOnly)
                throws IncompatibleThreadStateException {
            thread = inThread;
            depth = ofDepth;
            looked = 0;
            List<Location> found = points.computeIfAbsent(place.method(), method -> {
                List<Location> returning = new ArrayList<>();
                for (int at : new ByteCode(method).returns) {
                    returning.add(method.locationOfCodeIndex(at));
                }
                return returning;
            });
            if (found.contains(place)) {
                onReturnPoint(place); // it stands there already
                return;
            }
            for (Location point : found) {
                if (lineOnly && point.lineNumber() != place.lineNumber()) {
                    continue;
                }
                BreakpointRequest request = requests.manager().createBreakpointRequest(point);
                request.addThreadFilter(thread);
                request.putProperty(PROPERTY, this);
                watching.add(requests.enable(request));
            }
        }

        /** The thread stands at an instruction that returns. */
        public void onReturnPoint(Location place) throws IncompatibleThreadStateException {
            if (thread.frameCount() != depth) {
                if (++looked > MANY) {
                    stop();
                }
                return;
            }
            stop();
            MethodExitRequest request = requests.manager().createMethodExitRequest();
            request.addThreadFilter(thread);
            request.addClassFilter(place.declaringType());
            request.putProperty(PROPERTY, this);
            watching.add(requests.enable(request));
        }

        /**
         * Whether the frame's caller is about to return too, without a step in it: of two steps to
         * one instruction, as at the end of a recursion, the virtual machine tells only the first.
         */
        public boolean onExit(MethodExitEvent event) throws IncompatibleThreadStateException {
            int at = thread.frameCount();
            if (at == depth) {
                left = Program.name(event.method().name());
                returned = event.returnValue();
            }
            return left != null && at == depth - 1;
        }

        /** The virtual machine has stepped: the frame's caller is no longer waited for. */
        void onStep() {
            if (left != null) {
                stop();
            }
        }

        void stop() {
            for (EventRequest request : watching) {
                requests.delete(request);
            }
            watching.clear();
        }

        void forget() {
            stop();
            left = null;
            returned = null;
        }
    }
}
