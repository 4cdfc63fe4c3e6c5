package stepinto.probe.stops;

import com.sun.jdi.*;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.ExceptionRequest;
import java.util.*;
import stepinto.probe.program.Target;
import stepinto.probe.program.Variables;
import stepinto.probe.threads.Requests;

/**
 * Stops at the first line of the test method or {@code main}, and finds the exception that ends the
 * test or the program while its frames still live.
 *
 * <p>Most of them are caught: a test's by its runner, others by a finally block that passes them
 * on. So each one is looked at, which costs a fifth of a millisecond: classes that raise many are
 * left out.
 */
public final class TestRun {
    public static final String ENTRY = "stepinto.entry";
    private static final String RUNNER = "stepinto.runner.TestRunner";
    private static final String RULE =
            "org.junit.rules.ExpectedException$ExpectedExceptionStatement";
    private static final List<String> SKIPS =
            Arrays.asList(
                    "org.opentest4j.TestAbortedException",
                    "org.opentest4j.TestSkippedException",
                    "org.junit.AssumptionViolatedException",
                    "org.junit.internal.AssumptionViolatedException",
                    "org.testng.SkipException");
    private static final String DESCRIPTORS = "org.junit.jupiter.engine.descriptor.";
    /** What JUnit 5 has for one run of a test of several, with its number. */
    private static final List<String> INVOCATIONS =
            Arrays.asList(
                    DESCRIPTORS + "TestTemplateInvocationTestDescriptor",
                    DESCRIPTORS + "DynamicTestTestDescriptor");
    private static final int MANY_OF_A_CLASS = 300;
    private static final int MANY = 3000;
    private final VirtualMachine machine;
    private final Requests requests;
    private final Target target;
    private final Map<String, Integer> counts = new HashMap<>();
    private final List<String> leftOut = new ArrayList<>();
    /** Of those that something catches. */
    private ExceptionRequest caught;
    private int total;
    /** Stops at the entry, until it was reached. */
    private final List<BreakpointRequest> entries = new ArrayList<>();
    private boolean stopAtEntry;

    public TestRun(
            VirtualMachine machine, Requests requests, Target target, boolean stopAtEntry) {
        this.machine = machine;
        this.requests = requests;
        this.target = target;
        this.stopAtEntry = stopAtEntry;
    }

    /** A class was loaded; with the one of the entry it begins. */
    public void onPrepare(ReferenceType type) {
        if (!type.name().equals(target.entryClass)) {
            return;
        }
        for (String name : stopAtEntry ? target.entryMethods : new ArrayList<String>()) {
            for (Method method : type.methodsByName(name)) {
                if (!method.isAbstract() && !method.isNative() && !method.isBridge()) {
                    entries.add(requests.stopIn(method, ENTRY));
                }
            }
        }
        requests.enableLasting(requests.manager().createExceptionRequest(null, false, true));
        watchCaught();
    }

    /** The entry was reached: once is enough. */
    public void onEntry() {
        stopAtEntry = false;
        entries.forEach(requests::delete);
        entries.clear();
    }

    private void watchCaught() {
        if (caught != null) {
            requests.delete(caught);
        }
        caught = requests.manager().createExceptionRequest(null, true, false);
        for (String name : leftOut) {
            caught.addClassExclusionFilter(name);
        }
        requests.enableLasting(caught);
    }

    /** Whether the exceptions that a class raises and something catches are watched. */
    boolean watchesCaught(String thrower) {
        return caught != null && !leftOut.contains(thrower);
    }

    /** The program caught an exception: leave its class out if that happens too often. */
    public void onCaught(Escape escape, List<String> notes) {
        if (caught == null) {
            return;
        }
        String thrower = escape.thrown.declaringType().name();
        int count = counts.merge(thrower, 1, Integer::sum);
        if (++total > MANY) {
            requests.delete(caught);
            caught = null;
            notes.add(
                    "the program raised and caught over " + MANY
                            + " exceptions; from now on none is watched, so that one that ends"
                            + " the test will not stop it: set an exception breakpoint for that");
        } else if (count == MANY_OF_A_CLASS) {
            leftOut.add(thrower);
            watchCaught();
            notes.add(
                    thrower + " raised over " + MANY_OF_A_CLASS
                            + " exceptions that the program caught; from now on those that it"
                            + " raises are not watched: set an exception breakpoint for that");
        }
    }

    /**
     * Whether an exception ends the test, or the program. One that ends another thread does not,
     * unless the test's own method runs in that thread, as with a time limit.
     */
    public boolean isEnding(Escape escape, boolean mainThread) {
        if (escape.caughtByProgram() || !escape.leavesProgram() || escape.programGoesOn()) {
            return false;
        }
        return (mainThread || escape.leavesTest(target.entryMethods))
                && !skips(escape.exception)
                && !isExpected(escape);
    }

    /** Which invocation a thread runs of a test that has several: its number; null if of none. */
    public static Integer invocation(ThreadReference thread)
            throws IncompatibleThreadStateException {
        for (StackFrame frame : thread.frames()) {
            boolean engine = frame.location().declaringType().name().startsWith(DESCRIPTORS);
            ObjectReference owner = engine ? frame.thisObject() : null;
            if (owner != null && INVOCATIONS.contains(owner.referenceType().name())) {
                Value number = Variables.field(owner, "index");
                return number instanceof IntegerValue ? ((IntegerValue) number).value() : null;
            }
        }
        return null;
    }

    /** Whether an exception only says that the test is skipped. */
    public static boolean skips(ObjectReference exception) {
        return SKIPS.contains(exception.referenceType().name());
    }

    /** Whether the test's annotation, or a rule of JUnit 4, expects an exception. */
    private boolean isExpected(Escape escape) {
        for (ReferenceType runner : machine.classesByName(RUNNER)) {
            Value value = runner.getValue(runner.fieldByName("expectedException"));
            if (value instanceof StringReference) {
                String name = ((StringReference) value).value();
                return Escape.classes(escape.exception).contains(name);
            }
        }
        if (machine.classesByName(RULE).isEmpty()) {
            return false;
        }
        try {
            for (StackFrame frame : escape.thread.frames()) {
                if (frame.location().declaringType().name().equals(RULE)) {
                    Value size = Variables.field(
                            frame.thisObject(), "this$0", "matcherBuilder", "matchers", "size");
                    return size instanceof IntegerValue && ((IntegerValue) size).value() > 0;
                }
            }
            return false;
        } catch (IncompatibleThreadStateException running) {
            return false;
        }
    }
}
