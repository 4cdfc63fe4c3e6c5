package stepinto.probe.evaluation;

import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.HashMap;
import java.util.Map;
import stepinto.probe.evaluation.Parser.NeedsCompiler;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Stack.FrameAt;
import stepinto.probe.program.Program;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.threads.Invoker;

/**
 * Evaluates Java expressions and code in a paused frame.
 *
 * <p>Plain Java is interpreted: parsed here, and carried out through the debug interface, which is
 * fast and sees private members. What the interpreter does not know is compiled and brought into
 * the program. What the code raises is an error of the evaluation and leaves the program where it
 * is.
 */
public final class Evaluator {
    private static final int REMEMBERED = 100;

    final Invoker invoker;
    final Types types;
    final Calls calls;
    final Operators operators;
    private final Snippets snippets;
    private final Map<String, Expression> parsed = new HashMap<>();
    private Map<String, Scope.Declared> declared = new HashMap<>();

    public Evaluator(VirtualMachine machine, ValueText values, Invoker invoker, Program program) {
        this.invoker = invoker;
        types = new Types(machine, invoker, program.sources);
        calls = new Calls(types, invoker, values, program);
        operators = new Operators(types, calls);
        snippets = new Snippets(types, calls);
    }

    /** The program runs on: variables that code declared are gone. */
    public void resumed() {
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
        Operand operand = operand(expression, new Scope(at, this, declared));
        return operand.isType() ? operand.type.classObject() : operand.value;
    }

    public boolean condition(String expression, FrameAt at) throws EvaluationFailed {
        Operand operand = operand(expression, new Scope(at, this, declared));
        boolean truth = operators.truth(operand, "the condition");
        calls.release();
        return truth;
    }

    /** Whether a text is an expression at all; what its names mean only a frame tells. */
    public static void check(String expression) throws EvaluationFailed {
        try {
            Parser.whole(expression);
        } catch (NeedsCompiler construct) {
            return; // left to the compiler, which has to see the frame's variables
        }
    }

    private Operand operand(String expression, Scope scope) throws EvaluationFailed {
        scope.enterBlock(); // what a pattern declares is gone with the expression
        try {
            Expression found = parsed.get(expression);
            if (found == null) {
                found = Parser.whole(expression);
                if (parsed.size() >= REMEMBERED) {
                    parsed.clear();
                }
                parsed.put(expression, found);
            }
            return found.evaluate(scope);
        } catch (NeedsCompiler construct) {
            return snippets.evaluate(expression, construct, scope);
        } catch (RuntimeException problem) {
            throw unforeseen(problem);
        }
    }

    /** What the debug interface refuses, such as an object that was collected meanwhile. */
    private static EvaluationFailed unforeseen(RuntimeException problem) {
        if (problem instanceof VMDisconnectedException) {
            throw problem; // the program has ended
        }
        return new EvaluationFailed("it can't be evaluated here: " + problem);
    }

    /**
     * Carries out statements; what they assign takes effect in the frame and the objects.
     *
     * <p>Variables that they declare outside of blocks are there for the code after them, until the
     * program runs on.
     */
    public void runCode(String code, FrameAt at) throws EvaluationFailed {
        Scope scope = new Scope(at, this, declared);
        try {
            StatementParser.Statement.all(scope, StatementParser.all(code));
        } catch (NeedsCompiler construct) {
            snippets.runCode(code, construct, scope);
        } catch (RuntimeException problem) {
            throw unforeseen(problem);
        }
    }
}
