package stepinto.probe;

import com.sun.jdi.ClassType;
import com.sun.jdi.Field;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.StringReference;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.ExceptionEvent;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.ExceptionRequest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Tells the exception that ends the test or the program while its frames still live.
 *
 * <p>A test's exceptions all are caught, by its runner at the latest. So each one is looked at,
 * which costs a fifth of a millisecond: classes that raise many to catch them are left out.
 */
final class Failures {
    private static final int MANY_OF_A_CLASS = 300;
    private static final int MANY = 3000;
    private static final String RUNNER = "stepinto.runner.TestRunner";
    private static final String[] LOADING = {
        "java.net.URLClassLoader*", "java.lang.ClassLoader*", "java.lang.Class", "jdk.internal.*",
        "sun.*", "java.util.ServiceLoader*", "java.security.*"
    };
    private static final List<String> SKIPS =
            Arrays.asList(
                    "org.opentest4j.TestAbortedException",
                    "org.opentest4j.TestSkippedException",
                    "org.junit.AssumptionViolatedException",
                    "org.junit.internal.AssumptionViolatedException",
                    "org.testng.SkipException");
    private final VirtualMachine machine;
    private final Requests requests;
    private final Target target;
    private final Map<String, Integer> counts = new HashMap<>();
    private final List<String> leftOut = new ArrayList<>(Arrays.asList(LOADING));
    private ExceptionRequest request;
    private int total;

    Failures(VirtualMachine machine, Requests requests, Target target) {
        this.machine = machine;
        this.requests = requests;
        this.target = target;
    }

    /** Leave out what is raised and caught while classes are looked for. */
    static void leaveOutLoading(ExceptionRequest request) {
        for (String pattern : LOADING) {
            request.addClassExclusionFilter(pattern);
        }
    }

    /** Watch from now on. */
    void watch() {
        if (request != null) {
            requests.delete(request);
        }
        request = requests.manager().createExceptionRequest(null, target.test, true);
        for (String pattern : leftOut) {
            request.addClassExclusionFilter(pattern);
        }
        requests.enable(request);
    }

    boolean watching() {
        return request != null;
    }

    boolean owns(EventRequest other) {
        return request != null && request == other;
    }

    /** The program caught an exception: leave its class out where that happens too often. */
    void onCaught(Escape escape, List<String> notes) {
        String thrower = escape.thrower();
        Integer before = counts.get(thrower);
        int count = before == null ? 1 : before + 1;
        counts.put(thrower, count);
        if (++total > MANY) {
            requests.delete(request);
            request = null;
            notes.add(
                    "the program raised and caught over "
                            + MANY
                            + " exceptions; from now on none is watched, so that one that ends"
                            + " the test will not stop it: set an exception breakpoint for that");
        } else if (count == MANY_OF_A_CLASS) {
            leftOut.add(thrower);
            watch();
            notes.add(
                    thrower
                            + " raised over "
                            + MANY_OF_A_CLASS
                            + " exceptions that the program caught; from now on those that it"
                            + " raises are not watched: set an exception breakpoint for that");
        }
    }

    /** Whether an exception ends the test, or a thread of the program. */
    boolean isEnding(ExceptionEvent event, Escape escape, boolean mainThread) {
        if (escape.caughtByProgram() || !escape.leavesProgram()) {
            return false;
        }
        boolean test = escape.leaves(target.entryMethods);
        boolean ends = mainThread ? !escape.programGoesOn() : escape.caught == null;
        return (test || ends) && !escape.programGoesOn() && !expected(event.exception());
    }

    /** What a skipped test says; null where the exception skips none. */
    static boolean skips(ObjectReference exception) {
        return SKIPS.contains(exception.referenceType().name());
    }

    private boolean expected(ObjectReference exception) {
        if (skips(exception)) {
            return true;
        }
        for (ReferenceType runner : machine.classesByName(RUNNER)) {
            Field field = runner.fieldByName("expectedException");
            Value value = field == null ? null : runner.getValue(field);
            if (value instanceof StringReference) {
                return isA(exception, ((StringReference) value).value());
            }
        }
        return false;
    }

    private static boolean isA(ObjectReference exception, String name) {
        ClassType type = (ClassType) exception.referenceType();
        while (type != null && !type.name().equals(name)) {
            type = type.superclass();
        }
        return type != null;
    }
}
