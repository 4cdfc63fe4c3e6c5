package stepinto.probe.evaluation;

import stepinto.probe.program.EvaluationFailed;

/** Java that the interpreter does not know: lambdas, anonymous classes, switch, try ... */
final class NeedsCompiler extends EvaluationFailed {
    private static final long serialVersionUID = 1;

    /** The construct, as a reader calls it. */
    NeedsCompiler(String construct) {
        super(construct);
    }
}
