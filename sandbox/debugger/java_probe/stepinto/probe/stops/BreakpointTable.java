package stepinto.probe.stops;

import com.sun.jdi.*;
import com.sun.jdi.event.BreakpointEvent;
import com.sun.jdi.event.ExceptionEvent;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.EventRequest;
import java.util.*;
import stepinto.probe.evaluation.Evaluator;
import stepinto.probe.program.ByteCode;
import stepinto.probe.program.ClassFiles;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.LineStarts;
import stepinto.probe.program.Sources;
import stepinto.probe.threads.Requests;
import stepinto.probe.wire.Fields;
import stepinto.probe.wire.Refusal;

/** All breakpoints, bound to the classes that are loaded and waiting for those that are not. */
public final class BreakpointTable {
    /** Marks the requests that {@link #onJumpBack} is told of. */
    public static final String JUMP_BACK = "stepinto.jump_back";
    /** Marks the requests at a place that counts only if a loop has come back to it. */
    public static final String TURN = "stepinto.turn";

    private static final int NONE = Integer.MIN_VALUE;
    final TreeMap<Integer, Breakpoint> breakpoints = new TreeMap<>();
    private final Sources sources;
    private final Places places;
    private final Requests requests;
    /** Threads that jump back to a method's first instruction or to a loop's head. */
    private final Set<ThreadReference> turning = new HashSet<>();
    private int nextNumber = 1;

    public BreakpointTable(Sources sources, ClassFiles classFiles, Requests requests) {
        this.sources = sources;
        this.places = new Places(sources, classFiles);
        this.requests = requests;
    }

    /** Set one. Raises Refusal if its file, line, function, exception or condition is wrong. */
    public Breakpoint add(Fields arguments, List<String> notes) throws Refusal {
        Breakpoint point = placed(arguments, notes);
        for (Breakpoint other : breakpoints.values()) {
            if (other.same(point)) {
                other.temporary = point.temporary;
                other.collects = point.collects;
                String own = "breakpoint " + point.number + " ";
                String its = "breakpoint " + other.number;
                notes.replaceAll(note -> note.replace(own, its + " "));
                notes.add(its + other.take(point.watch));
                return other;
            }
        }
        bind(point);
        breakpoints.put(point.number, point);
        nextNumber = Math.max(nextNumber, point.number + 1);
        return point;
    }

    /** A new one at its place, not set yet. Raises Refusal as {@code add} does. */
    public Breakpoint placed(Fields arguments, List<String> notes) throws Refusal {
        int number = arguments.number("number", nextNumber);
        Breakpoint point = new Breakpoint(number, arguments);
        if (point.condition != null) {
            check("the condition", point.condition);
        }
        checkWatched(arguments.texts("watch"));
        checkWatched(arguments.texts("collect"));
        place(point, arguments, notes);
        return point;
    }

    /** Notes on why breakpoints were not hit, once the run has ended; once each. */
    public void addNeverHit(List<String> notes) {
        for (Breakpoint point : breakpoints.values()) {
            if (point.pending() && !point.calledMissing) {
                point.calledMissing = true;
                notes.add("the class of breakpoint " + point.number
                        + " was never loaded in this process");
            }
            if (point.falseConditions > 0 && point.hits == 0) {
                notes.add("breakpoint " + point.number + " was reached " + point.falseConditions + " time"
                        + (point.falseConditions > 1 ? "s" : "")
                        + " in this run, and its condition was false each time");
                point.falseConditions = 0;
            }
        }
    }

    /** Raises Refusal if one is not an expression. */
    public static void checkWatched(List<String> expressions) throws Refusal {
        for (String expression : expressions == null ? new ArrayList<String>() : expressions) {
            check("the watch '" + expression + "'", expression);
        }
    }

    private static void check(String what, String expression) throws Refusal {
        try {
            String refusal = Evaluator.refusal(expression);
            if (refusal != null) {
                throw new Refusal(what + refusal);
            }
        } catch (EvaluationFailed failed) {
            throw new Refusal(what + " is not an expression: " + failed.getMessage());
        }
    }

    private void place(Breakpoint point, Fields arguments, List<String> notes)
            throws Refusal {
        String file = arguments.text("file");
        String function = arguments.text("function");
        int line = arguments.number("line", NONE);
        if (point.exception != null) {
            point.classes.addAll(places.exceptions(point.exception));
        } else if (!function.isEmpty()) {
            places.onFunction(point, file, function);
        } else if (!file.isEmpty() && line != NONE) {
            String source = arguments.text("source");
            places.onLine(point, file, line, source, notes);
        } else {
            throw new Refusal(
                    "a breakpoint needs a file and a line, or a function, or an exception");
        }
    }

    private void bind(Breakpoint point) {
        for (String name : point.classes) {
            for (ReferenceType type : requests.await(name)) {
                bind(point, type);
            }
        }
    }

    private void bind(Breakpoint point, ReferenceType type) {
        if (point.exception != null) {
            enable(point, requests.manager().createExceptionRequest(type, true, true));
        } else if (point.function == null) {
            for (Method method : type.methods()) {
                LineStarts.Starts starts =
                        point.starts.of(type.name(), method.name(), method.signature());
                if (starts != null) {
                    bindLine(point, method, starts);
                }
            }
        } else {
            for (Method method : type.methods()) {
                if (point.methods.contains(method.name() + method.signature())) {
                    enable(point, requests.manager().createBreakpointRequest(method.location()));
                    watchRestarts(point, method);
                }
            }
        }
    }

    private void bindLine(Breakpoint point, Method method, LineStarts.Starts starts) {
        TreeSet<Long> indices = new TreeSet<>(starts.indices);
        if (!starts.fits(method.bytecodes())) {
            // Another version of the class, or one that a tool has changed.
            indices.clear();
            try {
                for (Location place : method.locationsOfLine(point.line)) {
                    indices.add(place.codeIndex());
                }
            } catch (AbsentInformationException absent) {
                return;
            }
        }
        for (long index : indices) {
            Location place = method.locationOfCodeIndex(index);
            enable(point, requests.manager().createBreakpointRequest(place));
        }
        bindTurns(point, method, indices);
    }

    private void enable(Breakpoint point, EventRequest request) {
        request.putProperty(Breakpoint.PROPERTY, point);
        point.requests.add(requests.enableLasting(request));
    }

    /**
     * Bind to where a loop comes back to its head, if that is inside the line, as compilers have it
     * for a for-each. {@code starts} are the instructions at which the line begins.
     */
    private void bindTurns(Breakpoint point, Method method, TreeSet<Long> starts) {
        ByteCode code = new ByteCode(method);
        Set<Location> heads = new HashSet<>();
        code.jumpsBack.forEach((at, target) -> {
            Location head = method.locationOfCodeIndex(target);
            boolean counted = !starts.subSet((long) target, (long) at + 1).isEmpty();
            if (head.lineNumber() == point.line && !counted) {
                heads.add(head);
                watchJump(point, method, code, at);
            }
        });
        for (Location head : heads) {
            BreakpointRequest turn = requests.manager().createBreakpointRequest(head);
            turn.putProperty(TURN, true);
            enable(point, turn);
        }
    }

    /** Tells calls of a method from loops that jump back to its first instruction; mostly none. */
    private void watchRestarts(Breakpoint point, Method method) {
        ByteCode code = new ByteCode(method);
        code.jumpsBack.forEach((at, target) -> {
            if (target == 0) {
                watchJump(point, method, code, at);
            }
        });
    }

    private void watchJump(Breakpoint point, Method method, ByteCode code, int at) {
        watchJump(point, method, at, true);
        if (code.isConditional(at)) {
            watchJump(point, method, at + code.size(at), false);
        }
    }

    private void watchJump(Breakpoint point, Method method, int at, boolean jumps) {
        BreakpointRequest request =
                requests.manager().createBreakpointRequest(method.locationOfCodeIndex(at));
        request.putProperty(JUMP_BACK, jumps);
        point.requests.add(requests.enableLasting(request));
    }

    /** A thread stands at a jump back, or behind one that it has not taken. */
    public void onJumpBack(BreakpointEvent event, BreakpointRequest request) {
        turning.remove(event.thread());
        if (Boolean.TRUE.equals(request.getProperty(JUMP_BACK))) {
            turning.add(event.thread());
        }
    }

    /** Whether a thread that stands at a method's first instruction, or a head, came by a loop. */
    public boolean turned(ThreadReference thread) {
        return turning.remove(thread);
    }

    /** A class was loaded: bind what waits for it; notes say what was. */
    public void onPrepare(ReferenceType type, List<String> notes) {
        for (Breakpoint point : breakpoints.values()) {
            if (point.classes.contains(type.name())) {
                bind(point, type);
                tell(point, notes);
            }
        }
    }

    /** Bind what waits for classes that were loaded while events were off. */
    public void recheck(List<String> notes) {
        for (Breakpoint point : new ArrayList<>(breakpoints.values())) {
            if (point.pending()) {
                bind(point);
            }
            tell(point, notes);
        }
    }

    private static void tell(Breakpoint point, List<String> notes) {
        if (point.calledPending && !point.pending()) {
            point.calledPending = false;
            notes.add("breakpoint " + point.number + " is bound now");
        }
    }

    public void remove(int number) throws Refusal {
        Breakpoint point = breakpoints.get(number);
        if (point == null) {
            String known = breakpoints.keySet().toString().replaceAll("[\\[\\]]", "");
            throw new Refusal(
                    "there is no breakpoint " + number + "; set: " + (known.isEmpty() ? "none" : known));
        }
        remove(point);
    }

    public void remove(Breakpoint point) {
        breakpoints.remove(point.number);
        for (EventRequest request : point.requests) {
            requests.retire(request);
        }
        point.requests.clear();
        point.removed = true;
    }

    boolean isEmpty() {
        return breakpoints.isEmpty();
    }

    Collection<Breakpoint> all() {
        return breakpoints.values();
    }

    /** The exception breakpoints on an exception's class, or on one above it. */
    public List<Breakpoint> forException(ObjectReference exception) {
        List<Breakpoint> found = new ArrayList<>();
        Set<String> classes = Escape.classes(exception);
        for (Breakpoint point : breakpoints.values()) {
            if (point.exception != null && !Collections.disjoint(classes, point.classes)) {
                found.add(point);
            }
        }
        return found;
    }

    public boolean watches(String path, int line) {
        for (Breakpoint point : breakpoints.values()) {
            if (point.line == line && point.path.equals(path)) {
                return true;
            }
        }
        return false;
    }

    /** Whether a stretch of a method's code carries a breakpoint, both ends included. */
    boolean watches(Method method, long from, long to) {
        for (Breakpoint point : breakpoints.values()) {
            for (EventRequest request : point.requests) {
                if (request instanceof BreakpointRequest) {
                    Location place = ((BreakpointRequest) request).location();
                    long index = place.codeIndex();
                    if (from <= index && index <= to && place.method().equals(method)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    public List<Object> describe() {
        return describe(breakpoints.values());
    }

    public List<Object> describe(Iterable<Breakpoint> points) {
        List<Object> found = new ArrayList<>();
        for (Breakpoint point : points) {
            found.add(point.describe(sources));
        }
        return found;
    }

    /** One breakpoint: where it is wanted, and the requests by which it is bound there. */
    public static final class Breakpoint {
        public static final String PROPERTY = "stepinto.breakpoint";
        private static final int MOST_EXCEPTIONS = 1000;

        public final int number;
        /** Absolute; empty for an exception breakpoint. */
        String path = "";
        /** In the version that runs; 0 if it is not there. */
        int line;
        /** The line and its text in the file now, if that was edited before it was set. */
        int presentLine;
        String presentText;
        /** Null but for a function breakpoint. */
        public String function;
        public final String condition;
        public boolean temporary;
        /** Expressions that the host evaluates at its stops. */
        List<?> watch = Collections.emptyList();
        public int hits;
        /** How often its condition was false. */
        public int falseConditions;
        /** Null but for an exception breakpoint. */
        final String exception;
        public final boolean uncaught;
        /** Of a line breakpoint: where in the classes. */
        LineStarts starts;
        /** The classes it stops in, loaded or not; of an exception breakpoint, the exception's. */
        final Set<String> classes = new HashSet<>();
        /** Of a function breakpoint: name and descriptor of its methods. */
        final Set<String> methods = new HashSet<>();
        final List<EventRequest> requests = new ArrayList<>();
        /** Of an exception breakpoint, the exceptions it was due at and where each was raised. */
        private final Map<Long, Location> due = new LinkedHashMap<>();
        /** Whether its hits are collected, without a stop at each. */
        public boolean collects;
        /** Whether an answer has called it pending. */
        boolean calledPending;
        /** Whether a note has said that its class was never loaded. */
        boolean calledMissing;
        /** Whether it was removed, as a temporary one is once hit. */
        public boolean removed;

        Breakpoint(int number, Fields arguments) {
            this.number = number;
            condition = given(arguments.text("condition"));
            temporary = arguments.flag("temporary");
            if (arguments.get("watch") != null) {
                watch = (List<?>) arguments.get("watch");
            }
            exception = given(arguments.text("exception"));
            uncaught = arguments.flag("uncaught");
            collects = arguments.get("collect") != null;
        }

        private static String given(String text) {
            return text.isEmpty() ? null : text;
        }

        /** Whether it stops in a method of a class, by their names. */
        boolean isIn(String type, String method, String descriptor) {
            if (exception != null || !classes.contains(type)) {
                return false;
            }
            return function == null
                    ? starts.of(type, method, descriptor) != null
                    : methods.contains(method + descriptor);
        }

        /** Whether it stops for exceptions of one of the classes. */
        boolean stopsForOneOf(Set<String> made) {
            return exception != null && !uncaught && !Collections.disjoint(classes, made);
        }

        boolean pending() {
            return requests.isEmpty() && !removed && !classes.isEmpty();
        }

        /** Whether it was due at the exception already, which other code now raises again. */
        public boolean thrownAgain(ExceptionEvent event) {
            Location first = due.putIfAbsent(event.exception().uniqueID(), event.location());
            if (due.size() > MOST_EXCEPTIONS) {
                due.remove(due.keySet().iterator().next());
            }
            return first != null && !first.equals(event.location());
        }

        /** Whether it would stop exactly where another one does. */
        boolean same(Breakpoint other) {
            return path.equals(other.path)
                    && line == other.line
                    && (line > 0 || presentLine == other.presentLine)
                    && uncaught == other.uncaught
                    && Objects.equals(exception, other.exception)
                    && Objects.equals(condition, other.condition)
                    && methods.equals(other.methods);
        }

        /** Take expressions to watch, if there are any. Returns what to say of it. */
        String take(List<?> given) {
            if (given.isEmpty() || given.equals(watch)) {
                return " is there already";
            }
            String done = watch.isEmpty() ? "added" : "replaced";
            watch = given;
            return " was there; watches " + done;
        }

        /** The text by which a restart finds its line again. */
        private String source(Sources sources) {
            if (presentText != null) {
                return presentText;
            }
            return path.isEmpty() ? "" : sources.line(path, line);
        }

        Fields describe(Sources sources) {
            calledPending |= pending();
            return new Fields()
                    .with("number", number)
                    .with("file", sources.relative(path))
                    .with("line", presentText == null ? line : presentLine)
                    .with("function", function)
                    .with("condition", condition)
                    .with("temporary", temporary)
                    .with("hits", hits)
                    .with("exception", exception)
                    .with("uncaught", uncaught)
                    .with("pending", pending())
                    .with("watch", watch)
                    .with("source", source(sources));
        }
    }
}
