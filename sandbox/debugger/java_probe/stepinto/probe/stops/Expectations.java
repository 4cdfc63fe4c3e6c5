package stepinto.probe.stops;

import com.sun.jdi.Field;
import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.IntegerValue;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.StackFrame;
import com.sun.jdi.StringReference;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.Arrays;
import java.util.List;

/** The exceptions that a test is meant to end with. */
public final class Expectations {
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
    private final VirtualMachine machine;

    Expectations(VirtualMachine machine) {
        this.machine = machine;
    }

    /** Whether an exception only says that the test is skipped. */
    public static boolean skips(ObjectReference exception) {
        return SKIPS.contains(exception.referenceType().name());
    }

    /** Whether the test's annotation, or a rule of JUnit 4, expects an exception. */
    boolean meet(ObjectReference exception, ThreadReference thread) {
        for (ReferenceType runner : machine.classesByName(RUNNER)) {
            Field field = runner.fieldByName("expectedException");
            Value value = field == null ? null : runner.getValue(field);
            if (value instanceof StringReference) {
                String name = ((StringReference) value).value();
                return Handlers.classes(exception).contains(name);
            }
        }
        return !machine.classesByName(RULE).isEmpty() && ruleExpects(thread);
    }

    private static boolean ruleExpects(ThreadReference thread) {
        try {
            for (StackFrame frame : thread.frames()) {
                if (frame.location().declaringType().name().equals(RULE)) {
                    Value rule = field(frame.thisObject(), "this$0");
                    Value matchers = field(field(rule, "matcherBuilder"), "matchers");
                    Value size = field(matchers, "size");
                    return size instanceof IntegerValue && ((IntegerValue) size).value() > 0;
                }
            }
        } catch (IncompatibleThreadStateException running) {
            return false;
        }
        return false;
    }

    private static Value field(Value object, String name) {
        if (!(object instanceof ObjectReference)) {
            return null;
        }
        Field field = ((ObjectReference) object).referenceType().fieldByName(name);
        return field == null ? null : ((ObjectReference) object).getValue(field);
    }
}
