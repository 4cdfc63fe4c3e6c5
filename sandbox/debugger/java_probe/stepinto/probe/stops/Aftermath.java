package stepinto.probe.stops;

import com.sun.jdi.Location;
import com.sun.jdi.Method;
import java.util.*;
import stepinto.probe.program.ClassFile;
import stepinto.probe.program.ClassFile.Code;
import stepinto.probe.program.ClassFiles;
import stepinto.probe.program.Program;
import stepinto.probe.program.Reach;
import stepinto.probe.program.Reach.Body;
import stepinto.probe.stops.BreakpointTable.Breakpoint;

/**
 * Which breakpoints may be reached after an exception that ends the test was raised, before the
 * test is over: in what finally blocks and handlers call, in the {@code close()} of resources, in
 * methods that run after each test. The answer errs on the side of yes.
 */
public final class Aftermath {
    /** What runs after a test although it carries no annotation. */
    private static final Set<String> AFTER_TESTS =
            new HashSet<>(
                    Arrays.asList(
                            "tearDown", "afterEach", "afterAll", "afterTestExecution",
                            "handleTestExecutionException", "testFailed", "after", "failed",
                            "finished", "onTestFailure", "afterInvocation"));
    private static final List<String> EXTENSIONS =
            Arrays.asList(
                    "org/junit/jupiter/api/extension/", "org/junit/Rule", "org/junit/ClassRule",
                    "org/junit/runner/RunWith", "org/testng/annotations/Listeners");
    private final ClassFiles classFiles;
    private final BreakpointTable table;
    private final Escape.Handlers handlers;
    private final Program program;

    public Aftermath(
            Program program,
            ClassFiles classFiles,
            BreakpointTable table,
            Escape.Handlers handlers) {
        this.program = program;
        this.classFiles = classFiles;
        this.table = table;
        this.handlers = handlers;
    }

    /** The breakpoints that may still be reached. */
    public List<Breakpoint> reachable(Escape escape) {
        List<Breakpoint> found = new ArrayList<>();
        if (table.isEmpty()) {
            return found;
        }
        Reach reach = new Reach(classFiles);
        Set<String> classes = Escape.classes(escape.exception);
        for (Location place : escape.left()) {
            for (long[] stretch : handlers.passing(place, classes)) {
                add(reach, place.method(), stretch);
            }
        }
        for (ClassFile file : testClasses(escape)) {
            addTeardown(reach, file);
        }
        Set<Body> bodies = reach.all();
        for (Breakpoint point : table.all()) {
            if (reaches(point, bodies) || point.stopsForOneOf(reach.made)) {
                found.add(point);
            }
        }
        return found;
    }

    private void add(Reach reach, Method method, long[] stretch) {
        ClassFile file = classFiles.exactly(method.declaringType().name());
        for (Code code : file == null ? new ArrayList<Code>() : file.methods) {
            boolean same = code.name.equals(method.name())
                    && code.descriptor.equals(method.signature());
            if (same) {
                reach.add(file, code, (int) stretch[0], (int) stretch[1]);
            }
        }
    }

    /** The class of the test, those that it extends and those around it. */
    private List<ClassFile> testClasses(Escape escape) {
        Deque<String> open = new ArrayDeque<>();
        open.add(program.target.entryClass);
        String outermost = program.target.entryClass;
        for (Location place : escape.left()) {
            outermost = program.owns(place) ? place.declaringType().name() : outermost;
        }
        open.add(outermost);
        Set<String> seen = new HashSet<>();
        List<ClassFile> found = new ArrayList<>();
        while (!open.isEmpty()) {
            String name = open.remove();
            ClassFile file = seen.add(name) ? classFiles.exactly(name) : null;
            if (file == null) {
                continue;
            }
            found.add(file);
            open.add(file.parent());
            int inner = name.lastIndexOf('$');
            if (inner > 0) {
                open.add(name.substring(0, inner));
            }
        }
        return found;
    }

    private static void addTeardown(Reach reach, ClassFile file) {
        for (Code code : file.methods) {
            boolean marked = code.annotations.stream().anyMatch(Aftermath::isAfter);
            if (marked || AFTER_TESTS.contains(code.name)) {
                reach.add(file, code);
            }
        }
        if (EXTENSIONS.stream().anyMatch(file::mentions)) {
            reach.addNamed(AFTER_TESTS);
        }
    }

    private static boolean isAfter(String annotation) {
        return annotation.substring(annotation.lastIndexOf('/') + 1).startsWith("After");
    }

    private static boolean reaches(Breakpoint point, Set<Body> bodies) {
        for (Body body : bodies) {
            if (point.isIn(body.file.name, body.code.name, body.code.descriptor)) {
                return true;
            }
        }
        return false;
    }
}
