package stepinto.probe.stops;

import com.sun.jdi.*;
import com.sun.jdi.event.BreakpointEvent;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.threads.Requests;

/**
 * Switches off the time limits that JUnit 4 and TestNG set for a test, since their clocks run while
 * the program is paused: where one is set, it becomes 0, which is none.
 */
public final class TimeLimits {
    public static final String PROPERTY = "stepinto.limit";
    private static final String OFF =
            "the test runner's time limit is switched off in this session: a test that fails by it"
                    + " alone passes here";
    /** The methods that are given a limit, by their classes. */
    private static final Map<String, String> SETTERS = new HashMap<>();

    static {
        SETTERS.put("org.junit.internal.runners.statements.FailOnTimeout", "<init>");
        SETTERS.put("org.testng.internal.BaseTestMethod", "setTimeOut");
    }

    private final VirtualMachine machine;
    private final Requests requests;
    private boolean told;

    public TimeLimits(VirtualMachine machine, Requests requests) {
        this.machine = machine;
        this.requests = requests;
        SETTERS.keySet().forEach(requests::await);
    }

    public void onPrepare(ReferenceType type) {
        String setter = SETTERS.get(type.name());
        if (setter == null) {
            return;
        }
        for (Method method : type.methodsByName(setter)) {
            requests.stopIn(method, PROPERTY);
        }
    }

    /** A limit is about to be set: as a number, or in the builder of what keeps it. */
    public void onSet(BreakpointEvent event, List<String> notes)
            throws IncompatibleThreadStateException {
        StackFrame frame = event.thread().frame(0);
        try {
            for (LocalVariable argument : event.location().method().arguments()) {
                Value value = frame.getValue(argument);
                if (value instanceof LongValue) {
                    tell(value, notes);
                    frame.setValue(argument, machine.mirrorOf(0L));
                } else if (value instanceof ObjectReference) {
                    clear((ObjectReference) value, notes);
                }
            }
        } catch (AbsentInformationException | InvalidTypeException | ClassNotLoadedException no) {
            return; // the limit stays, and a failure after a pause tells of the pause
        }
    }

    private void clear(ObjectReference builder, List<String> notes)
            throws InvalidTypeException, ClassNotLoadedException {
        Field field = builder.referenceType().fieldByName("timeout");
        boolean limit = field != null && !field.isFinal() && field.typeName().equals("long")
                && builder.referenceType().name().startsWith("org.junit.");
        if (limit) {
            tell(builder.getValue(field), notes);
            builder.setValue(field, machine.mirrorOf(0L));
        }
    }

    private void tell(Value limit, List<String> notes) {
        if (((LongValue) limit).value() > 0 && !told) {
            told = true;
            notes.add(OFF);
        }
    }
}
