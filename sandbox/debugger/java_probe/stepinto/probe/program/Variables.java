package stepinto.probe.program;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.Field;
import com.sun.jdi.InternalException;
import com.sun.jdi.LocalVariable;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.StackFrame;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The variables of one frame as they are now: {@code this}, the locals, what a class captured. */
public final class Variables {
    private static final String CAPTURED = "val$";

    /** {@code this} first, then the locals in the order of their declaration. */
    public final List<Named> values;

    /** What the reader has to know, such as that the class was compiled without {@code -g}. */
    public final List<String> notes;

    private Variables(List<Named> values, List<String> notes) {
        this.values = values;
        this.notes = notes;
    }

    /** Reads them all in a few round trips, without running anything. */
    public static Variables of(FrameAt at) throws EvaluationFailed {
        StackFrame frame = at.frame();
        List<Named> found = new ArrayList<>();
        ObjectReference self = frame.thisObject();
        if (self != null) {
            found.add(new Named("this", frame.location().declaringType().name(), self));
            captured(self, found);
        }
        try {
            List<LocalVariable> variables = frame.visibleVariables();
            Map<LocalVariable, Value> read = values(frame, variables);
            for (LocalVariable variable : read.keySet()) {
                Value value = read.get(variable);
                found.add(new Named(variable.name(), variable.typeName(), value));
            }
            return new Variables(found, Collections.<String>emptyList());
        } catch (AbsentInformationException absent) {
            arguments(frame, found);
            return new Variables(found, Collections.singletonList(unrecorded(frame)));
        }
    }

    /** In the order of the variables; without those that the virtual machine can't read here. */
    private static Map<LocalVariable, Value> values(
            StackFrame frame, List<LocalVariable> variables) {
        Map<LocalVariable, Value> found = new LinkedHashMap<>();
        try {
            Map<LocalVariable, Value> read = frame.getValues(variables);
            for (LocalVariable variable : variables) {
                found.put(variable, read.get(variable));
            }
        } catch (InternalException unreadable) {
            // One that is not set yet fails them all: ask for each.
            for (LocalVariable variable : variables) {
                readOne(frame, variable, found);
            }
        }
        return found;
    }

    private static void readOne(
            StackFrame frame, LocalVariable variable, Map<LocalVariable, Value> found) {
        try {
            found.put(variable, frame.getValue(variable));
        } catch (InternalException unreadable) {
            found.remove(variable);
        }
    }

    /** Why the locals of a frame can't be seen. */
    public static String unrecorded(StackFrame frame) {
        String type = TypeNames.simple(frame.location().declaringType().name());
        return "the names of the local variables of "
                + type
                + " are not recorded: its class was compiled without -g;"
                + " compile it with javac -g to see them";
    }

    /** The variables of the enclosing method that a local or anonymous class has copies of. */
    private static void captured(ObjectReference self, List<Named> found) {
        List<Field> fields = new ArrayList<>();
        for (Field field : self.referenceType().fields()) {
            if (field.name().startsWith(CAPTURED)) {
                fields.add(field);
            }
        }
        if (fields.isEmpty()) {
            return;
        }
        Map<Field, Value> read = self.getValues(fields);
        for (Field field : fields) {
            String name = field.name().substring(CAPTURED.length());
            found.add(new Named(name, field.typeName(), read.get(field)));
        }
    }

    private static void arguments(StackFrame frame, List<Named> found) {
        Method method = frame.location().method();
        if (method.isNative()) {
            return;
        }
        List<Value> values = frame.getArgumentValues();
        List<String> types = method.argumentTypeNames();
        for (int at = 0; at < values.size(); at++) {
            found.add(new Named("argument " + (at + 1), types.get(at), values.get(at)));
        }
    }
}
