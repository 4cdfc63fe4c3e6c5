package stepinto.probe;

import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Evaluates Java expressions and code in a paused frame.
 *
 * <p>Expressions are interpreted: parsed here, and carried out through the debug interface. What an
 * expression raises is an error of the evaluation and leaves the program where it is.
 */
final class Evaluator {
    private static final int REMEMBERED = 100;

    private final Services services;
    private final Map<String, Expression> parsed =
            new LinkedHashMap<String, Expression>(16, 0.75f, true) {
                private static final long serialVersionUID = 1;

                @Override
                protected boolean removeEldestEntry(Map.Entry<String, Expression> eldest) {
                    return size() > REMEMBERED;
                }
            };
    private Map<String, Scope.Declared> declared = new HashMap<>();

    Evaluator(VirtualMachine machine, ValueText values, Invoker invoker, Sources sources) {
        this.services = new Services(new Types(machine, invoker, sources), invoker, values);
    }

    /** The program runs on: variables that code declared are gone. */
    void resumed() {
        declared = new HashMap<>();
        services.calls.release();
        services.types.forgetMissing();
    }

    /**
     * The value of an expression; JDI's void value for a call of a void method.
     *
     * @param millis how long it may take
     * @throws EvaluationFailed with the reason: {@code Type: message} of what it raised, what is
     *     wrong with it, or that it did not end in time
     */
    Value evaluate(String expression, FrameAt at, long millis) throws EvaluationFailed {
        Scope scope = scope(at, millis);
        Operand operand = parse(expression).evaluate(scope);
        if (operand.isType()) {
            return operand.type.classObject();
        }
        return operand.value;
    }

    /** Whether a condition holds. */
    boolean condition(String expression, FrameAt at, long millis) throws EvaluationFailed {
        Scope scope = scope(at, millis);
        Operand operand = parse(expression).evaluate(scope);
        boolean truth = services.conversions.truth(operand, "the condition");
        services.calls.release();
        return truth;
    }

    /**
     * Carries out statements; what they assign takes effect in the frame and the objects.
     *
     * <p>Variables that they declare outside of blocks are there for the code after them, until the
     * program runs on.
     */
    void runCode(String code, FrameAt at, long millis) throws EvaluationFailed {
        Scope scope = scope(at, millis);
        try {
            StatementParser.whole(code).runAll(scope);
        } catch (NeedsCompiler construct) {
            throw new EvaluationFailed(
                    construct.getMessage() + " can't be run here; call a method of the program"
                            + " instead");
        }
    }

    private Expression parse(String expression) throws EvaluationFailed {
        Expression found = parsed.get(expression);
        if (found == null) {
            try {
                found = Parser.whole(expression);
            } catch (NeedsCompiler construct) {
                throw new EvaluationFailed(
                        construct.getMessage() + " can't be evaluated here; call a method of the"
                                + " program instead");
            }
            parsed.put(expression, found);
        }
        return found;
    }

    private Scope scope(FrameAt at, long millis) throws EvaluationFailed {
        long deadline = System.nanoTime() + millis * 1_000_000;
        return new Scope(at, services, declared, deadline);
    }
}
