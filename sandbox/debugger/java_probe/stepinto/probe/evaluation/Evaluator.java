package stepinto.probe.evaluation;

import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.HashMap;
import java.util.Map;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.FrameAt;
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

    private final Services services;
    private final Snippets snippets;
    private final Map<String, Expression> parsed = new HashMap<>();
    private Map<String, Scope.Declared> declared = new HashMap<>();

    public Evaluator(VirtualMachine machine, ValueText values, Invoker invoker, Program program) {
        services = new Services(machine, invoker, values, program);
        snippets = new Snippets(services);
    }

    /** The program runs on: variables that code declared are gone. */
    public void resumed() {
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
    public Value evaluate(String expression, FrameAt at, long millis) throws EvaluationFailed {
        Operand operand = operand(expression, scope(at, millis));
        return operand.isType() ? operand.type.classObject() : operand.value;
    }

    /** Whether a condition holds. */
    public boolean condition(String expression, FrameAt at, long millis) throws EvaluationFailed {
        Operand operand = operand(expression, scope(at, millis));
        boolean truth = services.conversions.truth(operand, "the condition");
        services.calls.release();
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
        } catch (VMDisconnectedException gone) {
            throw gone;
        } catch (RuntimeException problem) {
            throw unforeseen(problem);
        }
    }

    /** What the debug interface refuses, such as an object that was collected meanwhile. */
    private static EvaluationFailed unforeseen(RuntimeException problem) {
        return new EvaluationFailed("it can't be evaluated here: " + problem);
    }

    /**
     * Carries out statements; what they assign takes effect in the frame and the objects.
     *
     * <p>Variables that they declare outside of blocks are there for the code after them, until the
     * program runs on.
     */
    public void runCode(String code, FrameAt at, long millis) throws EvaluationFailed {
        Scope scope = scope(at, millis);
        try {
            Statement.all(scope, StatementParser.all(code));
        } catch (NeedsCompiler construct) {
            snippets.runCode(code, construct, scope);
        } catch (VMDisconnectedException gone) {
            throw gone;
        } catch (RuntimeException problem) {
            throw unforeseen(problem);
        }
    }

    private Scope scope(FrameAt at, long millis) throws EvaluationFailed {
        long deadline = System.nanoTime() + millis * 1_000_000;
        return new Scope(at, services, declared, deadline);
    }
}
