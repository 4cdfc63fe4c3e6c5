package stepinto.probe.evaluation.tree;

import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.program.EvaluationFailed;

/** A Java expression that can be evaluated in a paused frame. */
public abstract class Expression {
    public abstract Operand evaluate(Scope scope) throws EvaluationFailed;

    /**
     * The numeric type that its value would have, found without evaluating it; null if it is
     * none, or only the evaluation can tell.
     */
    String numericType(Scope scope) throws EvaluationFailed {
        return null;
    }

    /** The variable, if it stands for one. */
    Variable variable(Scope scope) throws EvaluationFailed {
        throw new EvaluationFailed("only a variable, a field or an array element can be assigned");
    }

    /** Something that can be read and assigned. */
    public interface Variable {
        Operand get() throws EvaluationFailed;

        /** Assigns a value, converted to the variable's type; returns it as assigned. */
        Operand set(Operand value) throws EvaluationFailed;
    }
}
