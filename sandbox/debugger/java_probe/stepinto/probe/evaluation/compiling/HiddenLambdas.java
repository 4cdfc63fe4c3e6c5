package stepinto.probe.evaluation.compiling;

import java.nio.ByteBuffer;

/**
 * Makes the lambdas of a class work when it is hidden.
 *
 * <p>What {@code LambdaMetafactory} makes calls a lambda's body by the name of its class, and a
 * hidden class has none. So the class brings a method of the same name and type that hands on a
 * method handle instead; here the lambdas are bound to that.
 */
final class HiddenLambdas {
    /** The method, for the source of the class. */
    static final String SOURCE =
            "static java.lang.invoke.CallSite metafactory("
                    + "java.lang.invoke.MethodHandles.Lookup lookup, String name, "
                    + "java.lang.invoke.MethodType made, java.lang.invoke.MethodType method, "
                    + "java.lang.invoke.MethodHandle body, java.lang.invoke.MethodType exact) "
                    + "throws Exception { "
                    + "return new java.lang.invoke.ConstantCallSite("
                    + "java.lang.invoke.LambdaMetafactory.altMetafactory(lookup, name, "
                    + "made.insertParameterTypes(0, java.lang.invoke.MethodHandle.class), method, "
                    + "java.lang.invoke.MethodHandles.exactInvoker(body.type()), exact, 0)"
                    + ".getTarget().bindTo(body)); }\n";

    private HiddenLambdas() {}

    /** The class file with its lambdas bound to its own {@code metafactory}. */
    static byte[] bound(byte[] bytes) {
        ByteBuffer content = ByteBuffer.wrap(bytes.clone());
        ConstantPool constants = new ConstantPool(content);
        int self = content.getShort(constants.end + 2) & 0xffff;
        for (int index = 1; index < constants.count(); index++) {
            if (constants.is(index, ConstantPool.METHOD) && isMetafactory(constants, index)) {
                constants.setFirst(index, self);
            }
        }
        return content.array();
    }

    private static boolean isMetafactory(ConstantPool constants, int index) {
        String owner = constants.text(constants.first(constants.first(index)));
        String name = constants.text(constants.first(constants.second(index)));
        return owner.equals("java/lang/invoke/LambdaMetafactory") && name.equals("metafactory");
    }
}
