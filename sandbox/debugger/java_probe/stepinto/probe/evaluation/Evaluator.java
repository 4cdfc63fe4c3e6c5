package stepinto.probe.evaluation;

import com.sun.jdi.ObjectReference;
import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Stack.FrameAt;
import stepinto.probe.program.Program;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.threads.Invoker;

/**
 * Evaluates Java expressions and code in a paused frame.
 *
 * <p>Plain Java is interpreted: carried out through the debug interface, which is fast and sees
 * private members. What the interpreter does not know is compiled and brought into the program.
 * What the code raises is an error of the evaluation and leaves the program where it is.
 */
public final class Evaluator {
    private static final int REMEMBERED = 100;
    /** The name of the exception that the program stopped at. */
    private static final String RAISED = "__exception__";

    final Invoker invoker;
    final Types types;
    final Calls calls;
    final Operators operators;
    private final Snippets snippets;
    private final Map<String, List<Expression>> parsed = new HashMap<>();
    private Map<String, Scope.Declared> declared = new HashMap<>();
    private ObjectReference raised;

    public Evaluator(VirtualMachine machine, ValueText values, Invoker invoker, Program program) {
        this.invoker = invoker;
        types = new Types(machine, invoker, program.sources);
        calls = new Calls(types, invoker, values, program);
        operators = new Operators(types, calls);
        snippets = new Snippets(types, calls);
    }

    /** The program stopped at an exception, which expressions see. */
    public void atException(ObjectReference exception) {
        raised = exception;
    }

    /** The program runs on: variables that code declared are gone. */
    public void resumed() {
        raised = null;
        declared = new HashMap<>();
        calls.release();
        types.forgetMissing();
    }

    /**
     * The value of an expression; JDI's void value for a call of a void method.
     *
     * @throws EvaluationFailed with the reason: {@code Type: message} of what it raised, what is
     *     wrong with it, or that it did not end in time
     */
    public Value evaluate(String expression, FrameAt at) throws EvaluationFailed {
        Operand operand = operand(expression, at);
        return operand.isType() ? operand.type.classObject() : operand.value;
    }

    public boolean condition(String expression, FrameAt at) throws EvaluationFailed {
        boolean truth = operators.truth(operand(expression, at), "the condition");
        calls.release();
        return truth;
    }

    /**
     * {@link Code#refusal} of an expression; fails if it is none at all. What its names mean only a
     * frame tells.
     */
    public static String refusal(String expression) throws EvaluationFailed {
        return Code.expression(expression).refusal;
    }

    private Operand operand(String expression, FrameAt at) throws EvaluationFailed {
        // What a pattern declares is gone with the expression.
        Scope scope = scope(at, new HashMap<>(declared));
        List<Expression> steps = parsed.get(expression);
        if (steps != null) {
            return run(null, steps, scope);
        }
        Code code = Code.expression(expression);
        if (code.refusal != null) {
            throw new EvaluationFailed("it" + code.refusal);
        }
        if (code.steps != null) {
            if (parsed.size() >= REMEMBERED) {
                parsed.clear();
            }
            parsed.put(expression, code.steps);
        }
        return run(code, code.steps, scope);
    }

    private Scope scope(FrameAt at, Map<String, Scope.Declared> variables)
            throws EvaluationFailed {
        Scope scope = new Scope(at, this, variables);
        if (raised != null) {
            scope.declare(RAISED, TypeName.of(null), Operand.of(raised));
        }
        return scope;
    }

    /** The value of the last of some steps; of the code as a whole if they are null. */
    private Operand run(Code code, List<Expression> steps, Scope scope) throws EvaluationFailed {
        try {
            if (steps == null) {
                return snippets.run(code, scope);
            }
            Operand last = null;
            for (Expression step : steps) {
                last = step.evaluate(scope);
            }
            return last;
        } catch (StackOverflowError overflow) {
            throw new EvaluationFailed("the code is nested too deeply");
        } catch (VMDisconnectedException ended) {
            throw ended;
        } catch (RuntimeException problem) {
            // What the debug interface refuses, such as an object that was collected meanwhile.
            throw new EvaluationFailed("it can't be evaluated here: " + problem);
        }
    }

    /**
     * Carries out statements; what they assign takes effect in the frame and the objects.
     *
     * <p>Variables that they declare outside of blocks are there for the code after them, until the
     * program runs on.
     */
    public void runCode(String code, FrameAt at) throws EvaluationFailed {
        Scope scope = scope(at, declared);
        Code read = Code.statements(code);
        for (String name : read.declared().keySet()) {
            if (scope.local(name) != null) {
                throw new EvaluationFailed(
                        name + " is a local variable of the frame already; assign it without a"
                                + " type, or take another name");
            }
        }
        run(read, read.steps, scope);
    }
}
