package stepinto.probe.evaluation.tree;

import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.VirtualMachine;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import stepinto.probe.evaluation.values.Conversions;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.evaluation.values.Services;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.FrameAt;

/** Where an expression is evaluated: the paused frame, and what the code itself has declared. */
public final class Scope {
    public final FrameAt at;
    public final Services services;
    /** The class whose code the frame runs. */
    public final ReferenceType here;

    private final Deque<Map<String, Declared>> blocks = new ArrayDeque<>();
    private final long deadline;
    private ObjectReference self;
    private boolean selfRead;

    public Scope(FrameAt at, Services services, Map<String, Declared> declared, long deadline)
            throws EvaluationFailed {
        this.at = at;
        this.services = services;
        this.deadline = deadline;
        this.here = at.frame().location().declaringType();
        blocks.push(declared);
    }

    /** A variable that the code itself declared. */
    public static final class Declared implements Expression.Variable {
        private final String type;
        private final String source;
        private final Scope scope;
        private Operand operand;

        /** Of a type as its declaration has it; {@code var} has the type of its value. */
        Declared(TypeName declared, Operand operand, Scope scope) throws EvaluationFailed {
            this.type = declared.isVar() ? Conversions.typeOf(operand) : declared.resolve(scope);
            this.source = declared.isVar() ? null : declared.source();
            this.scope = scope;
            set(operand);
        }

        public String type() {
            return type;
        }

        /** The type with its type arguments; null if it was not written. */
        public String source() {
            return source;
        }

        @Override
        public Operand get() {
            return operand;
        }

        @Override
        public Operand set(Operand value) throws EvaluationFailed {
            Conversions conversions = scope.services.conversions;
            operand = Operand.of(conversions.assign(value, type, scope.here), type);
            return operand;
        }
    }

    /** {@code this} of the frame; null in a static method. */
    ObjectReference self() throws EvaluationFailed {
        if (!selfRead) {
            self = at.frame().thisObject();
            selfRead = true;
        }
        return self;
    }

    VirtualMachine machine() {
        return services.types.machine();
    }

    /** Loops of the evaluated code itself end here when they run too long. */
    void checkTime() throws EvaluationFailed {
        if (System.nanoTime() - deadline > 0) {
            throw new EvaluationFailed("the code did not end in time and was interrupted", true);
        }
    }

    public void enterBlock() {
        blocks.push(new HashMap<String, Declared>());
    }

    void leaveBlock() {
        blocks.pop();
    }

    public void declare(String name, TypeName type, Operand value) throws EvaluationFailed {
        if (blocks.peek().containsKey(name) && blocks.size() > 1) {
            throw new EvaluationFailed("the variable " + name + " is declared twice");
        }
        blocks.peek().put(name, new Declared(type, value, this));
    }

    /** The variable of that name that the code declared; null if there is none. */
    public Expression.Variable declared(String name) {
        for (Map<String, Declared> block : blocks) {
            if (block.containsKey(name)) {
                return block.get(name);
            }
        }
        return null;
    }

    public Set<String> declaredNames() {
        Set<String> names = new LinkedHashSet<>();
        for (Map<String, Declared> block : blocks) {
            names.addAll(block.keySet());
        }
        return names;
    }
}
