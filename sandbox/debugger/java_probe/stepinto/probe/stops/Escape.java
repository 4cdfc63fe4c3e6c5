package stepinto.probe.stops;

import com.sun.jdi.*;
import com.sun.jdi.event.ExceptionEvent;
import java.util.*;
import stepinto.probe.program.*;
import stepinto.probe.program.ClassFile.Code;
import stepinto.probe.program.ClassFile.Handler;
import stepinto.probe.program.Stack;

/** How far an exception gets: which frames it leaves, and where it is caught. */
public final class Escape {
    /** Runs code in a thread of its own, and raises its exceptions again in the one that waits. */
    private static final String TIME_LIMIT = "org.junit.jupiter.api.AssertTimeout";
    private static final Set<String> INITIALISER_ERROR = new HashSet<>(Arrays.asList(
            "java.lang.ExceptionInInitializerError", "java.lang.LinkageError",
            "java.lang.Error", "java.lang.Throwable"));
    final ThreadReference thread;
    final ObjectReference exception;
    final Location thrown;
    /** As the virtual machine has it; null if nothing catches it. */
    private final Location caught;
    /** Whether it comes to code of the program's own that only passes it on, as a finally block. */
    public final boolean passedOn;
    private final Program program;
    private final Handlers handlers;
    /** The thread that runs the test. */
    private final ThreadReference test;
    private List<Location> places;
    /** Of the thread's own stack. */
    private int depth;
    /** The index of the first frame of the thread that waits for this one; -1 if none does. */
    private int handedOn = -1;
    private int catcher = -1;

    public Escape(
            ExceptionEvent event, ThreadReference test, Program program, Handlers handlers) {
        this.test = test;
        this.program = program;
        this.handlers = handlers;
        thread = event.thread();
        exception = event.exception();
        caught = event.catchLocation();
        thrown = event.location();
        passedOn = caught != null && program.owns(caught) && handlers.passesOn(caught);
    }

    /** Whether a method of the program's own catches it. */
    public boolean caughtByProgram() {
        if (caught == null || !program.owns(caught)) {
            return false;
        }
        return !passedOn || catcher() < places().size() && program.owns(places().get(catcher()));
    }

    /** Whether it is known to be caught in none of the methods, without a look at the frames. */
    boolean caughtOutside(Set<?> methods) {
        return !passedOn && caughtByProgram() && !methods.contains(caught.method());
    }

    private List<Location> places() {
        if (places == null) {
            places = Stack.places(thread);
            depth = places.size();
            int limit = indexOfTimeLimit(places);
            if (limit >= 0 && !thread.equals(test)) {
                handOn(limit);
            }
        }
        return places;
    }

    /** Puts in place of a time limit's frame, and those behind it, the program's own that wait. */
    private void handOn(int limit) {
        List<Location> waiting = Stack.places(test);
        int index = indexOfTimeLimit(waiting);
        while (index >= 0 && index < waiting.size() && !program.owns(waiting.get(index))) {
            index++;
        }
        if (index >= 0) {
            handedOn = limit;
            places = new ArrayList<>(places.subList(0, limit));
            places.addAll(waiting.subList(index, waiting.size()));
        }
    }

    private static int indexOfTimeLimit(List<Location> places) {
        for (int index = 0; index < places.size(); index++) {
            if (places.get(index).declaringType().name().startsWith(TIME_LIMIT)) {
                return index;
            }
        }
        return -1;
    }

    /** The index of the frame that catches it; the number of frames if none does. */
    private int catcher() {
        if (catcher >= 0) {
            return catcher;
        }
        List<Location> all = places();
        int index = 0;
        int end = handedOn < 0 ? all.size() : handedOn;
        while (index < end
                && (caught == null || !all.get(index).method().equals(caught.method()))) {
            index++;
        }
        // Behind a finally block foreign code is taken to catch everything.
        boolean beyond = passedOn || index == handedOn;
        Set<String> classes = beyond ? classes(exception) : new HashSet<>();
        for (; beyond && index < all.size(); index++) {
            Location place = all.get(index);
            boolean start = place.declaringType().name().equals("java.lang.Thread");
            if (program.owns(place) ? handlers.catches(place, classes) : !start) {
                break;
            }
        }
        int initialiser = initialiser(index);
        catcher = initialiser < 0 ? index : behind(initialiser);
        return catcher;
    }

    /** The index of the static initialiser that it leaves before that of a frame; -1 if none. */
    private int initialiser(int end) {
        boolean wrapped = !classes(exception).contains("java.lang.Error");
        for (int index = 0; wrapped && index < end; index++) {
            if (places().get(index).method().isStaticInitializer()) {
                return index;
            }
        }
        return -1;
    }

    /** The frame that catches the error which stands for it behind a static initialiser. */
    private int behind(int initialiser) {
        int index = initialiser + 1;
        while (index < places().size()
                && program.owns(places().get(index))
                && !handlers.catches(places().get(index), INITIALISER_ERROR)) {
            index++;
        }
        return index;
    }

    /** What ends the run in its place if it leaves a static initialiser; null if it does not. */
    public String standIn() {
        int initialiser = initialiser(catcher());
        if (initialiser < 0) {
            return null;
        }
        List<Location> all = places();
        String type = TypeNames.simple(all.get(initialiser).declaringType().name());
        String text = "this exception ends the static initialiser of " + type
                + ", so java.lang.ExceptionInInitializerError, caused by it, ends the run";
        Location user = initialiser + 1 < all.size() ? all.get(initialiser + 1) : null;
        if (user == null || !program.owns(user)) {
            return text;
        }
        return text + "; it is raised at " + program.sources.relative(program.path(user)) + ":"
                + user.lineNumber() + " in " + Program.function(user);
    }

    /** The depth of the frame that catches it, 1 the outermost; 0 if none does. */
    int catchDepth() {
        boolean elsewhere = handedOn >= 0 && catcher() >= handedOn;
        return elsewhere ? 0 : depth - catcher();
    }

    /** Whether it leaves code of the program's own. */
    public boolean leavesProgram() {
        return owned(0, catcher());
    }

    /** Whether code of the program's own goes on behind the one that catches it. */
    public boolean programGoesOn() {
        return owned(catcher(), places().size());
    }

    private boolean owned(int from, int to) {
        for (Location place : places().subList(from, to)) {
            if (program.owns(place)) {
                return true;
            }
        }
        return false;
    }

    /** Whether it leaves a test: a method with one of the names, called by a test runner. */
    boolean leavesTest(List<String> methods) {
        boolean left = false;
        for (int index = 0; index < places().size(); index++) {
            Location place = places().get(index);
            left |= index < catcher()
                    && methods.contains(place.method().name())
                    && program.owns(place);
            if (left && Program.isRunner(place.declaringType().name())) {
                return true;
            }
        }
        return false;
    }

    /** The places that it leaves, the innermost first. */
    List<Location> left() {
        return places().subList(0, catcher());
    }

    /** The class outside the program whose method catches it; empty if none does. */
    String foreignCatcher() {
        boolean none = catcher() == places().size() || program.owns(places().get(catcher()));
        return none ? "" : places().get(catcher()).declaringType().name();
    }

    /** Where one goes that ends neither the test nor the program, and that no frame handles. */
    public String fate() {
        if (catcher() == places().size()) {
            return "no frame catches it: it ends this thread, and the run goes on";
        }
        Method method = places().get(catcher()).method();
        return method.declaringType().name() + "." + Program.name(method.name())
                + ", outside the program, catches it and may hand it on to the program";
    }

    /** The class of an exception and those above it. */
    static Set<String> classes(ObjectReference exception) {
        Set<String> names = new HashSet<>();
        ClassType type = (ClassType) exception.referenceType();
        for (; type != null; type = type.superclass()) {
            names.add(type.name());
        }
        return names;
    }

    /**
     * What the program's own methods do with exceptions, from their class files.
     *
     * <p>The virtual machine also calls an exception caught if a finally block, the end of a
     * synchronized one, a resource to be closed or the program's own handler only passes it on.
     */
    public static final class Handlers {
        private final ClassFiles classFiles;
        private final BreakpointTable table;
        private final Map<Method, List<Handler>> known = new HashMap<>();
        /** Where a handler raises again what it was given. */
        private final Map<Handler, Integer> again = new HashMap<>();

        public Handlers(ClassFiles classFiles, BreakpointTable table) {
            this.classFiles = classFiles;
            this.table = table;
        }

        /** Whether the handler at a place only passes exceptions on, with no breakpoint in it. */
        boolean passesOn(Location place) {
            boolean any = false;
            for (Handler handler : of(place.method())) {
                if (handler.entry == place.codeIndex()) {
                    if (!raisesAgain(place.method(), handler)) {
                        return false;
                    }
                    any = true;
                }
            }
            return any;
        }

        /** The stretches of code, both ends included, that pass on one which leaves a place. */
        List<long[]> passing(Location place, Set<String> classes) {
            List<long[]> found = new ArrayList<>();
            Deque<Long> raised = new ArrayDeque<>(Collections.singleton(place.codeIndex()));
            Set<Handler> seen = new HashSet<>();
            while (!raised.isEmpty()) {
                long at = raised.remove();
                for (Handler handler : of(place.method())) {
                    boolean takes = handler.start <= at && at < handler.end
                            && (handler.type == null || classes.contains(handler.type));
                    if (!takes || !seen.add(handler)) {
                        continue;
                    }
                    long end = new ByteCode(place.method()).raisesAgain(handler.entry);
                    if (end >= 0) {
                        found.add(new long[] {handler.entry, end});
                        raised.add(end);
                    }
                }
            }
            return found;
        }

        /** Whether the method of a frame that stands at a place catches an exception of a class. */
        boolean catches(Location place, Set<String> classes) {
            for (Handler handler : of(place.method())) {
                long at = place.codeIndex();
                boolean takes = handler.start <= at && at < handler.end
                        && (handler.type == null || classes.contains(handler.type));
                if (takes && !raisesAgain(place.method(), handler)) {
                    return true;
                }
            }
            return false;
        }

        /** Whether it passes on what it was given: it may return instead, or raise another. */
        private boolean raisesAgain(Method method, Handler handler) {
            int at = again.computeIfAbsent(
                    handler, each -> new ByteCode(method).raisesAgain(each.entry));
            return at >= 0 && !table.watches(method, handler.entry, at);
        }

        private List<Handler> of(Method method) {
            return known.computeIfAbsent(method, each -> {
                ClassFile file = classFiles.exactly(each.declaringType().name());
                for (Code code : file == null ? new ArrayList<Code>() : file.methods) {
                    if (code.name.equals(each.name()) && code.descriptor.equals(each.signature())) {
                        return code.handlers;
                    }
                }
                return Collections.emptyList();
            });
        }
    }
}
